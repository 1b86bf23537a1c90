"""Opens a directory after clean stops and crashes, and with leftovers."""

import struct
import zlib
from pathlib import Path

import pytest

from highwater.partition.storage.errors import (
    UnsupportedFormatError,
)
from tests.support.log_batches import (
    append,
    make_batch,
    open_log,
    read_all,
)


def test_a_clean_stop_needs_no_scan_and_an_unclean_one_begins_at_the_recovery_point(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory)
    for _ in range(3):
        append(log, make_batch(), epoch=0)
        log.roll()
    append(log, make_batch())
    log.close(clean=True)
    log = open_log(directory, clean=True)
    assert (log.recovered_segments, log.durability.recovery_point, log.log_end_offset) == (0, 4, 4)
    log.close(clean=False)
    assert open_log(directory, recovery_point=3).recovered_segments == 1
    assert open_log(directory, recovery_point=2).recovered_segments == 2
    assert open_log(directory, recovery_point=0).recovered_segments == 4


def test_a_torn_tail_after_a_stop_that_says_it_was_clean(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory)
    append(log, make_batch(), make_batch(), epoch=0)
    log.close(clean=True)
    with Path(log.extent.active.file).open("r+b") as file:
        file.truncate(log.extent.size_bytes - 1)
    log = open_log(directory, clean=True)
    assert log.log_end_offset == 1
    assert log.recovered_segments == 1


def test_a_segment_that_a_truncation_took_away_and_a_power_cut_brought_back(tmp_path: Path) -> None:
    """Its removal was never synced; the log has since grown over its offsets, in another epoch."""
    directory = tmp_path / "topic-0"
    log = open_log(directory)
    append(log, make_batch(), make_batch(), make_batch(), epoch=0)
    log.roll()
    append(log, make_batch(), make_batch())
    old = Path(log.extent.active.file)
    content = old.read_bytes()
    log.truncate_to(1)
    append(log, *[make_batch() for _ in range(5)], epoch=1)
    log.cleaning.mark_gaps()
    log.close(clean=False)
    old.write_bytes(content)
    log = open_log(directory)
    assert [header.leader_epoch for header in read_all(log)] == [0, 1, 1, 1, 1, 1]
    assert (len(log.extent.all), log.log_end_offset) == (1, 6)
    log.close(clean=False)


@pytest.mark.parametrize("damage", [None, b"", b"0\n0\n", b"no checkpoint"])
def test_leader_epochs_are_found_in_the_batches_if_their_checkpoint_tells_nothing(
    tmp_path: Path, damage: bytes | None
) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory)
    for epoch in (0, 0, 3):
        append(log, make_batch(), epoch=epoch)
        log.roll()
    append(log, make_batch(), epoch=5)
    before = log.epochs.cache.entries()
    log.close(clean=True)
    path = directory / "leader-epoch-checkpoint"
    path.unlink() if damage is None else path.write_bytes(damage)
    assert open_log(directory, clean=True, recovery_point=4).epochs.cache.entries() == before
    assert path.read_text() == f"0\n{len(before)}\n" + "".join(f"{e} {s}\n" for e, s in before)


@pytest.mark.parametrize("cache_intact", [False, True])
@pytest.mark.parametrize("batches", [1, 5])
def test_leader_epochs_that_batches_contradict_are_found_in_the_batches(
    tmp_path: Path, batches: int, cache_intact: bool
) -> None:
    """A leader would not know the last epoch, and the replica would never catch up."""
    directory = tmp_path / "topic-0"
    log = open_log(directory)
    for epoch in (0, 0, 3):
        append(log, make_batch(), epoch=epoch)
        log.roll()
    append(log, *[make_batch() for _ in range(batches)], epoch=5)
    before = log.epochs.cache.entries()
    log.close(clean=False)
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n90 1\n")
    log = open_log(directory, clean=False, recovery_point=3, cache_intact=cache_intact)
    assert log.epochs.cache.entries() == before
    log.close(clean=False)
    assert open_log(directory, clean=True, recovery_point=4).epochs.cache.entries() == before


def test_old_message_formats_are_refused_and_not_cut_off(tmp_path: Path) -> None:
    body = struct.pack(">BBq", 1, 0, 5) + struct.pack(">i", -1) + struct.pack(">i", 2) + b"hi"
    message = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body + b"\0" * 80
    directory = tmp_path / "topic-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(message)
    with pytest.raises(UnsupportedFormatError):
        open_log(directory)
    assert (directory / "00000000000000000000.log").read_bytes() == message


def test_leftovers_of_deletion_are_removed(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    directory.mkdir()
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000007.index",
        "00000000000000000000.log.cleaned",
        "leader-epoch-checkpoint.tmp",
    ):
        (directory / name).write_bytes(b"x")
    open_log(directory)
    assert {path.name for path in directory.iterdir()} == {"00000000000000000000.log"}
