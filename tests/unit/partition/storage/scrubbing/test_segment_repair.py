"""A damaged range is fetched, checked and replaced byte for byte, or nothing changes."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from highwater.kafka.records.batch import LENGTH_OVERHEAD, read_header
from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.core.repair import Outcome
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import CLEANED_SUFFIX, DAMAGE, GAPS_MARKER
from highwater.partition.storage.scrubbing.segment_repair import NotNowError, heal
from tests.support.cleaned_node import CleanedNode
from tests.support.log_batches import append, make_batch, read_all
from tests.unit.partition.storage.scrubbing.test_scrub import flip

FAST = 1 << 40
TOPIC = TopicState(
    topic_id=TopicId(b"t" * 16), instance=InstanceId("default"), name="orders", partitions=()
)


class Node(CleanedNode):
    """A log of two closed segments with five batches each, and another replica's copy."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.it = self.log(TOPIC)
        for segment in range(2):
            for number in range(5):
                value = b"%d" % number * (40 + number)
                append(self.it, make_batch(timestamps=(1, 2), value=value), epoch=segment)
            self.it.roll()
        append(self.it, make_batch(), epoch=1)
        self.it.stored_high_watermark = self.it.log_end_offset
        self.batches = [b for s in self.it.extent.all for b in split(Path(s.file).read_bytes())]
        self.asked: list[tuple[int, int, int]] = []
        self.answers: dict[int, Callable[[int, int], bytes | Outcome]] = {2: self.sound}

    def sound(self, offset: int, end_offset: int) -> bytes | Outcome:
        """Gives one batch at a time."""
        for batch in self.batches:
            header = read_header(batch)
            last = header.base_offset + header.last_offset_delta
            if last >= offset:
                return batch if last < end_offset else b""
        return b""

    async def ask(self, node: int, offset: int, end_offset: int) -> bytes | Outcome:
        self.asked.append((node, offset, end_offset))
        return self.answers[node](offset, end_offset)

    async def heal(
        self, base: int, first: int, end: int, *nodes: int
    ) -> tuple[bool, dict[int, Outcome]]:
        return await heal(
            self.entry(self.it),
            base,
            first,
            end,
            nodes=nodes or (2,),
            ask=self.ask,
            fail=self.failures.append,
            bytes_per_s=FAST,
        )


def split(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        end = at + read_header(data, at).batch_length + LENGTH_OVERHEAD
        found.append(data[at:end])
        at = end
    return found


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


def bytes_of(log: PartitionLog) -> list[bytes]:
    return [Path(segment.file).read_bytes() for segment in log.extent.all]


def leftovers(log: PartitionLog) -> list[str]:
    return [path.name for path in Path(log.directory).glob("*.cleaned")]


def cut(log: PartitionLog, nbytes: int) -> None:
    """The end of the first segment is lost."""
    segment = log.extent.all[0]
    segment.size -= nbytes
    with Path(segment.file).open("r+b") as file:
        file.truncate(segment.size)


HEADER_FIELDS = {
    "offset": 7, "length": 11, "long length": 8, "epoch": 15, "magic": 16, "crc": 17, "delta": 26,
    "timestamp": 40, "record": 70,
}  # fmt: skip


@pytest.mark.parametrize("field", HEADER_FIELDS)
@pytest.mark.parametrize("batch", [0, 2, 4])
async def test_a_damaged_batch_is_healed_in_place(node: Node, batch: int, field: str) -> None:
    log = node.it
    before = bytes_of(log)
    old = log.extent.all[0]
    flip(old.file, sum(map(len, node.batches[:batch])) + HEADER_FIELDS[field])
    log.lost.add(2 * batch, 2 * batch + 2)
    assert (Path(log.directory) / DAMAGE).exists()
    assert await node.heal(0, 2 * batch, 2 * batch + 2) == (True, {2: Outcome.WHOLE})
    await node.settle()
    assert bytes_of(log) == before
    assert log.extent.all[0] is not old
    assert len(read_all(log)) == 11
    assert log.lost.ranges == ()
    assert not (Path(log.directory) / DAMAGE).exists()
    assert not (Path(log.directory) / GAPS_MARKER).exists(), "nothing is missing"
    assert leftovers(log) == []
    assert log.cleaning.running is None
    offsets = {offset for _, offset, _ in node.asked}
    assert min(offsets) == 2 * batch, "no more is fetched than has to be"


async def test_a_shortened_segment_gets_its_end_back(node: Node) -> None:
    log = node.it
    before = bytes_of(log)
    cut(log, 30)
    log.lost.add(8, 10)
    assert await node.heal(0, 8, 10) == (True, {2: Outcome.WHOLE})
    await node.settle()
    assert bytes_of(log) == before


async def test_a_range_that_is_intact_again_is_not_fetched(node: Node) -> None:
    node.it.lost.add(4, 6)
    old = node.it.extent.all[0]
    assert await node.heal(0, 4, 6) == (True, {})
    assert (node.it.lost.ranges, node.asked, node.it.extent.all[0]) == ((), [], old)


def wrong_checksum(node: Node, offset: int, end_offset: int) -> bytes:
    data = bytearray(bytes(node.sound(offset, end_offset)))  # type: ignore[arg-type]
    data[70] ^= 1
    return bytes(data)


def another_epoch(node: Node, offset: int, end_offset: int) -> bytes:
    data = bytearray(bytes(node.sound(offset, end_offset)))  # type: ignore[arg-type]
    data[15] ^= 1
    return bytes(data)


def shorter(node: Node, offset: int, end_offset: int) -> bytes:
    del node, end_offset
    return bytes(make_batch(base_offset=offset, timestamps=(1, 2), value=b""))


def too_few(node: Node, offset: int, end_offset: int) -> bytes:
    del node, end_offset
    return bytes(make_batch(base_offset=offset, timestamps=(1,), value=b"x" * 120))


def half(node: Node, offset: int, end_offset: int) -> bytes:
    return bytes(node.sound(offset, end_offset))[:-5]  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [wrong_checksum, another_epoch, shorter, too_few, half])
async def test_batches_that_do_not_fit_change_nothing(
    node: Node, wrong: Callable[[Node, int, int], bytes]
) -> None:
    log = node.it
    flip(log.extent.all[0].file, len(node.batches[0]) + 70)
    log.lost.add(2, 4)
    before, old = bytes_of(log), list(log.extent.all)
    node.answers[2] = lambda offset, end: wrong(node, offset, end)
    assert await node.heal(0, 2, 4) == (False, {2: Outcome.DIFFERS})
    assert (bytes_of(log), list(log.extent.all), log.lost.ranges) == (before, old, ((2, 4),))
    assert leftovers(log) == []
    node.answers[3] = node.sound
    healed, outcomes = await node.heal(0, 2, 4, 2, 3)
    assert (healed, outcomes) == (True, {2: Outcome.DIFFERS, 3: Outcome.WHOLE})
    await node.settle()
    assert len(read_all(log)) == 11


async def test_a_source_with_the_same_damage_is_skipped(node: Node) -> None:
    log = node.it
    flip(log.extent.all[1].file, 70)
    log.lost.add(10, 12)
    node.answers = {
        2: lambda *_: Outcome.DAMAGED,
        3: lambda *_: Outcome.SILENT,
        4: node.sound,
    }
    healed, outcomes = await node.heal(10, 10, 12, 2, 3, 4)
    assert healed
    assert outcomes == {2: Outcome.DAMAGED, 3: Outcome.SILENT, 4: Outcome.WHOLE}
    await node.settle()


async def test_two_damaged_batches_of_a_segment(node: Node) -> None:
    """The second batch's header is damaged, so the batches after it cannot be located."""
    log = node.it
    before = bytes_of(log)
    flip(log.extent.all[0].file, len(node.batches[0]) + 70)
    flip(log.extent.all[0].file, sum(map(len, node.batches[:3])) + 16)
    log.lost.add(2, 4)
    log.lost.add(6, 10)
    assert (await node.heal(0, 2, 4))[0]
    await node.settle()
    assert bytes_of(log) == before
    assert log.lost.ranges == ()


async def test_uncommitted_and_active_segments_wait(node: Node) -> None:
    log = node.it
    flip(log.extent.all[1].file, 70)
    log.lost.add(10, 12)
    log.stored_high_watermark = 11
    with pytest.raises(NotNowError):
        await node.heal(10, 10, 12)
    with pytest.raises(NotNowError):
        await node.heal(20, 20, 21)
    assert node.asked == []
    assert log.cleaning.running is None


async def test_a_log_that_is_cut_meanwhile_ends_the_repair(node: Node) -> None:
    log = node.it
    flip(log.extent.all[0].file, 70)
    log.lost.add(0, 2)
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def ask(asked: int, offset: int, end_offset: int) -> bytes | Outcome:
        reached.set()
        await go_on.wait()
        return await node.ask(asked, offset, end_offset)

    repair = asyncio.ensure_future(
        heal(node.entry(log), 0, 0, 2, nodes=(2,), ask=ask, fail=node.failures.append)
    )
    await reached.wait()
    log.truncate_to(4)
    go_on.set()
    with pytest.raises(NotNowError):
        await repair
    assert log.log_end_offset == 4
    assert log.lost.ranges == ((0, 2),)
    assert node.failures == []


@pytest.mark.parametrize("outcome", [Outcome.WHOLE, Outcome.SILENT])
async def test_files_that_cannot_be_removed_are_a_failed_disk_and_end_the_repair(
    node: Node, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    """The log once counted as being cleaned from then on, so nothing repaired or compacted it."""
    log = node.it
    flip(log.extent.all[0].file, 70)
    log.lost.add(0, 2)
    if outcome is Outcome.SILENT:
        node.answers[2] = lambda *_: outcome

    def unlink(path: str) -> None:
        if path.endswith(CLEANED_SUFFIX):
            raise OSError(errno.EIO, "the disk is broken", path)
        Path(path).unlink()

    with monkeypatch.context() as broken:
        broken.setattr(node.entry(log).directory.filesystem, "unlink", unlink)
        healed = await node.heal(0, 0, 2)
    assert healed == (outcome is Outcome.WHOLE, {2: outcome})
    assert [failure.cause.errno for failure in node.failures] == [errno.EIO]
    assert log.cleaning.running is None
