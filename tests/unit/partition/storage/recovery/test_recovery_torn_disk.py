"""A torn disk: the last two batches of a log are cut and garbled at every byte.

After a power cut, and on a kernel that runs on: there a process that was killed can leave a write
that was cut short, and everything else is damage, of which only what lies behind the last index
entry on disk is found at the start.
"""

import shutil
from pathlib import Path

import pytest

from highwater.partition.core.producers import ACCEPT, OUT_OF_ORDER_SEQUENCE
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import ManualClock, append, make_batch, read_all
from tests.support.searches import found_by

CONFIG = LogConfig(segment_bytes=800, index_interval_bytes=80)
PRODUCER = 42
BATCH_RECORDS = 2


def open_log(
    directory: Path, *, recovery_point: int = 0, cache_intact: bool = False
) -> PartitionLog:
    return PartitionLog.open(
        directory,
        topic="topic",
        partition=0,
        config=CONFIG,
        clock=ManualClock(5000),
        recovery_point=recovery_point,
        cache_intact=cache_intact,
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two segments with a producer's batches in both, as kill -9 leaves it."""
    directory = tmp_path_factory.mktemp("torn") / "topic-0"
    log = open_log(directory)
    for number in range(14):
        batch = make_batch(
            timestamps=(1000 + number, 1000 + number),
            value=b"some value",
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=number * BATCH_RECORDS,
        )
        append(log, batch, epoch=number // 5)
    log.extent.active.index.flush()
    log.extent.active.time_index.flush()
    assert len(log.extent.all) == 2
    assert len(read_all(log)) == 14
    log.close(clean=False)
    return directory


def remove_indexes(directory: Path) -> None:
    for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        path.unlink()


def garble_indexes(directory: Path) -> None:
    for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        path.write_bytes(bytes(range(1, 97)))


def remove_checkpoints(directory: Path) -> None:
    remove_indexes(directory)
    (directory / "leader-epoch-checkpoint").unlink()
    for path in directory.glob("*.snapshot"):
        path.unlink()


def garble_checkpoints(directory: Path) -> None:
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n7\nx")
    for path in directory.glob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-1] + b"\x55")


def nothing(directory: Path) -> None:
    assert directory.is_dir()


DAMAGE = [nothing, remove_indexes, garble_indexes, remove_checkpoints, garble_checkpoints]


def check_recovered(
    directory: Path,
    batches: int,
    *,
    recovery_point: int = 0,
    cache_intact: bool = False,
    damaged: bool = False,
) -> None:
    """`batches` whole batches are left, derived state matches them, and appends work."""
    log = open_log(directory, recovery_point=recovery_point, cache_intact=cache_intact)
    assert log.damaged == damaged
    end = batches * BATCH_RECORDS
    headers = read_all(log, 400)
    assert [h.base_offset for h in headers] == list(range(0, end, BATCH_RECORDS))
    assert log.log_end_offset == end
    assert found_by(log.search.first_at_or_after(1000 + batches - 1)) == (
        1000 + batches - 1, end - BATCH_RECORDS, (batches - 1) // 5
    )  # fmt: skip
    assert found_by(log.search.first_at_or_after(1000 + batches)) is None
    assert found_by(log.search.first_with_largest())[:2] == (
        1000 + batches - 1,
        end - BATCH_RECORDS,
    )
    epochs = [(epoch, epoch * 5 * BATCH_RECORDS) for epoch in range((batches - 1) // 5 + 1)]
    assert log.epochs.cache.entries() == epochs
    producers = log.producers.states
    assert producers.check(PRODUCER, 0, end, end + 1) == ACCEPT
    assert producers.check(PRODUCER, 0, end - 2, end - 1) == end - 2
    assert producers.check(PRODUCER, 0, end + 1, end + 1) == OUT_OF_ORDER_SEQUENCE
    assert log.extent.size_bytes == sum(Path(s.file).stat().st_size for s in log.extent.all)
    append(log, make_batch(timestamps=(3000,)), epoch=9)
    assert len(read_all(log)) == batches + 1
    log.close(clean=False)


def last_two(directory: Path) -> tuple[Path, int, int, int]:
    """The last segment's file, the positions of its last two batches, and its size."""
    file = max(directory.glob("*.log"))
    log = open_log(directory)
    size = log.extent.active.size
    one = log.reader.read(12 * BATCH_RECORDS, 1, end_offset=log.log_end_offset)
    two = log.reader.read(13 * BATCH_RECORDS, 1, end_offset=log.log_end_offset)
    assert one is not None
    assert two is not None
    log.close(clean=False)
    return file, one.position, two.position, size


def indexed(directory: Path, file: Path) -> int:
    """The position that the last entry of a segment's index leads to."""
    return int.from_bytes((directory / file.name).with_suffix(".index").read_bytes()[-4:])


@pytest.mark.parametrize("cache_intact", [False, True])
@pytest.mark.parametrize("damage", DAMAGE)
def test_cut_at_every_byte_of_the_last_two_batches(
    written: Path, tmp_path: Path, damage: object, cache_intact: bool
) -> None:
    pristine = tmp_path / "pristine"
    shutil.copytree(written, pristine)
    file, first, second, size = last_two(pristine)
    for cut in range(first, size):
        directory = tmp_path / "topic-0"
        shutil.copytree(written, directory)
        with (directory / file.name).open("r+b") as handle:
            handle.truncate(cut)
        damage(directory)
        # Even without any index: an incomplete batch looks like a torn write, unless the index,
        # which is written later, points to missing batches.
        check_recovered(
            directory,
            12 if cut < second else 13,
            cache_intact=cache_intact,
            damaged=damage in (nothing, garble_checkpoints) and indexed(written, file) >= cut,
        )
        shutil.rmtree(directory)


@pytest.mark.parametrize("cache_intact", [False, True])
@pytest.mark.parametrize("damage", DAMAGE)
def test_garbled_at_every_byte_of_the_last_two_batches(
    written: Path, tmp_path: Path, damage: object, cache_intact: bool
) -> None:
    """The CRC does not cover the leader epoch, so a change is not noticed, as in Kafka."""
    pristine = tmp_path / "pristine"
    shutil.copytree(written, pristine)
    file, first, second, size = last_two(pristine)
    for position in range(first, size):
        inside = position - (first if position < second else second)
        if 12 <= inside < 16:
            continue
        directory = tmp_path / "topic-0"
        shutil.copytree(written, directory)
        with (directory / file.name).open("r+b") as handle:
            handle.seek(position)
            byte = handle.read(1)[0]
            handle.seek(position)
            handle.write(bytes([byte ^ 0x5A]))
        damage(directory)
        # The CRC does not cover the base offset either, but it must follow the batch before.
        if cache_intact and position < second and damage in (nothing, garble_checkpoints):
            # The last index entry leads to the last batch, and recovery reads nothing before it.
            check_resumed_behind(directory)
        else:
            check_recovered(
                directory,
                12 if position < second else 13,
                recovery_point=1,
                cache_intact=cache_intact,
                damaged=not looks_cut(directory / file.name, first, second),
            )
        shutil.rmtree(directory)


def check_resumed_behind(directory: Path) -> None:
    """Batches before the last index entry are trusted, unless reading producers fails."""
    log = open_log(directory, recovery_point=1, cache_intact=True)
    assert (log.log_end_offset, log.recovered_segments, log.damaged) in (
        (28, 0, False),
        (24, 1, True),
    )
    log.close(clean=False)


def looks_cut(file: Path, first: int, second: int) -> bool:
    """Whether a changed length field makes a batch extend beyond the file's end."""
    data = file.read_bytes()
    lengths = ((at, int.from_bytes(data[at + 8 : at + 12], "big")) for at in (first, second))
    return any(0 < length < 1 << 31 and at + 12 + length > len(data) for at, length in lengths)


@pytest.mark.parametrize("garbage", [b"\0" * 4096, b"\xff" * 100, b"\0" * 3, bytes(range(256))])
@pytest.mark.parametrize("cache_intact", [False, True])
def test_garbage_after_the_last_batch(
    written: Path, tmp_path: Path, garbage: bytes, cache_intact: bool
) -> None:
    directory = tmp_path / "topic-0"
    shutil.copytree(written, directory)
    with max(directory.glob("*.log")).open("ab") as handle:
        handle.write(garbage)
    # Fewer bytes than a header may begin any batch; more must be a valid beginning.
    check_recovered(directory, 14, cache_intact=cache_intact, damaged=len(garbage) > 60)


def test_a_start_on_the_same_kernel_reads_little(written: Path, tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    shutil.copytree(written, directory)
    log = open_log(directory, cache_intact=True)
    assert log.recovered_segments == 0
    log.close(clean=False)
    check_recovered(directory, 14, cache_intact=True)


@pytest.mark.parametrize("missing", [0, 1])
def test_an_earlier_segment_that_does_not_end_where_the_next_begins(
    written: Path, tmp_path: Path, missing: int
) -> None:
    """No process crash causes this; the log is checked from there on."""
    directory = tmp_path / "topic-0"
    shutil.copytree(written, directory)
    first = min(directory.glob("*.log"))
    with first.open("r+b") as handle:
        handle.truncate(first.stat().st_size - (1 if missing else 200))
    log = open_log(directory, recovery_point=1, cache_intact=True)
    assert len(log.extent.all) == 1
    assert log.damaged
    log.close(clean=False)


def test_a_tear_in_an_earlier_segment_drops_what_follows(written: Path, tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    shutil.copytree(written, directory)
    first = min(directory.glob("*.log"))
    with first.open("r+b") as handle:
        handle.truncate(first.stat().st_size - 1)
    size = first.stat().st_size
    log = open_log(directory)
    assert len(log.extent.all) == 1
    whole = len(read_all(log))
    assert 5 < whole < 14
    assert log.truncated_bytes > size // whole
    log.close(clean=False)
    check_recovered(directory, whole)


def test_a_segment_that_lost_whole_batches_drops_what_follows(
    written: Path, tmp_path: Path
) -> None:
    """No batch is torn, but offsets are missing between the segments."""
    directory = tmp_path / "topic-0"
    shutil.copytree(written, directory)
    log = open_log(directory)
    position = log.reader.read(4, 1, end_offset=28).position
    first = Path(log.extent.all[0].file)
    log.close(clean=False)
    with first.open("r+b") as handle:
        handle.truncate(position)
    check_recovered(directory, 2, recovery_point=1, damaged=True)
