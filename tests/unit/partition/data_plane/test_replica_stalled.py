"""Appends in a stalled log directory: in order, acknowledged when written, no delay for others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.hop.append import OUTCOME_NOT_APPENDED, OUTCOME_UNKNOWN, AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import TopicState
from highwater.model.ids import DEFAULT_INSTANCE, TopicId
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.stall import FAST_WRITES_TO_RECOVER, WAITING_BYTES_MAX
from tests.support.log_batches import ManualClock, make_batch, read_all
from tests.unit.hop.sinks import Owner, Sink, group_of
from tests.unit.partition.data_plane.node import EPOCH, Node, ask
from tests.unit.partition.data_plane.roles import NODE, follow, image_says, lead
from tests.unit.partition.data_plane.test_replica_role import Port


class SlowDisk(InlineEnvironment):
    """A stalled directory; a write lasts until the test calls `finish`."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.stall.slow_write()

    def write_later(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.jobs.append((work, done))

    def finish(self) -> None:
        work, done = self.jobs.pop(0)
        work()
        done()


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_records_are_not_acknowledged_or_readable_before_they_are_written(
    node: Node, disk: SlowDisk
) -> None:
    replica = node.add(environment=disk)
    waiting = node.fetch(ask(0))
    sinks = [node.append(make_batch(), acks=acks) for acks in (1, -1, 0)]
    assert [sink.results for sink in sinks] == [[], [], []]
    assert (replica.high_watermark, waiting.answers, len(disk.jobs)) == (0, 0, 1)
    for number, sink in enumerate(sinks):
        disk.finish()
        assert sink.offsets == {0: number}
        assert sink.codes == {0: 0}
        assert replica.high_watermark == number + 1
    assert waiting.sizes[0] > 0
    assert disk.jobs == []
    assert disk.stall.waiting_bytes == 0
    assert len(read_all(replica.log)) == 3


def test_a_mixed_group_and_sequences(node: Node, disk: SlowDisk) -> None:
    replica = node.add(environment=disk)
    first = make_batch(producer_id=5, producer_epoch=0, base_sequence=0)
    second = make_batch(producer_id=5, producer_epoch=0, base_sequence=1)
    a = node.append(first, make_batch()[:-1] + b"?")
    b = node.append(bytearray(first), second)
    disk.finish()
    assert a.codes == {0: 0, 1: ErrorCode.CORRUPT_MESSAGE}
    assert b.results == []
    disk.finish()
    assert (b.codes, b.offsets) == ({0: 0, 1: 0}, {0: 0, 1: 1})
    assert replica.log.log_end_offset == 2


def test_a_group_with_nothing_to_write_waits_for_its_turn(node: Node, disk: SlowDisk) -> None:
    node.add(environment=disk)
    written = node.append(make_batch())
    refused = node.append(make_batch()[:40])
    assert refused.results == []
    disk.finish()
    assert (written.codes, refused.codes) == ({0: 0}, {0: ErrorCode.CORRUPT_MESSAGE})


def test_a_group_that_is_appended_during_an_answer_comes_last(node: Node, disk: SlowDisk) -> None:
    """A coordinator appends its next records when the last ones are answered."""
    node.add(environment=disk)
    order: list[tuple[str, int]] = []

    def group(name: str, then: Callable[[], None] = lambda: None) -> AppendGroup:
        def heard(offsets: list[int], _: object) -> None:
            order.append((name, offsets[0]))
            then()

        return group_of(make_batch(), epoch=EPOCH, owner=Owner(heard))

    node.plane.append([group("a", lambda: node.plane.append([group("c")])), group("b")])
    disk.finish()
    disk.stall.stalled = False
    disk.finish()
    assert order == [("a", 0), ("b", 1), ("c", 2)]
    assert disk.jobs == []


def test_appends_are_written_at_once_when_the_stall_has_ended(node: Node, disk: SlowDisk) -> None:
    replica = node.add(environment=disk)
    for _ in range(FAST_WRITES_TO_RECOVER):
        node.append(make_batch())
    queued = node.append(make_batch())
    for _ in range(FAST_WRITES_TO_RECOVER):
        assert disk.stall.stalled
        disk.finish()
    assert not disk.stall.stalled
    assert queued.offsets == {0: FAST_WRITES_TO_RECOVER}, "what still waited went at once"
    assert node.append(make_batch()).offsets == {0: FAST_WRITES_TO_RECOVER + 1}
    assert disk.jobs == []
    assert len(read_all(replica.log)) == FAST_WRITES_TO_RECOVER + 2


def test_during_a_late_write_appends_wait_even_if_the_stall_has_ended(
    node: Node, disk: SlowDisk
) -> None:
    node.add(environment=disk)
    first = node.append(make_batch())
    disk.stall.stalled = False
    second = node.append(make_batch())
    assert second.results == []
    disk.finish()
    assert (first.offsets, second.offsets) == ({0: 0}, {0: 1})


def test_an_append_is_refused_if_too_many_bytes_wait(node: Node, disk: SlowDisk) -> None:
    node.add(environment=disk)
    node.append(make_batch())
    disk.stall.waiting_bytes += WAITING_BYTES_MAX
    sink = node.append(make_batch())
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    assert sink.results[0][2].outcome == OUTCOME_NOT_APPENDED
    disk.stall.waiting_bytes -= WAITING_BYTES_MAX
    disk.finish()
    assert node.append(make_batch()).results == []


def outcomes(*sinks: Sink) -> list[tuple[int, int]]:
    failures = [failure for sink in sinks for _, _, failure in sink.results]
    assert len(failures) == len(sinks)
    return [(f.error_code, f.outcome) for f in failures if isinstance(f, Failure)]


def test_a_leader_does_not_resign_while_appends_wait_for_the_disk(
    node: Node, disk: SlowDisk
) -> None:
    """Later groups would be refused, and would reach the next leader before the waiting ones."""
    replica = node.add(environment=disk, lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2, 3))
    node.append(make_batch())
    assert not replica.resign()
    disk.finish()
    assert replica.resign()


def test_appends_that_wait_for_the_next_leader_are_limited(node: Node) -> None:
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2, 3))
    node.append(make_batch(), acks=-1)
    assert replica.resign()
    replica.log.stall.waiting_bytes += WAITING_BYTES_MAX
    sink = node.append(make_batch())
    assert outcomes(sink) == [(ErrorCode.REQUEST_TIMED_OUT, OUTCOME_NOT_APPENDED)]
    replica.log.stall.waiting_bytes -= WAITING_BYTES_MAX
    assert node.append(make_batch()).results == []


def test_a_failed_directory_fails_each_group_by_its_state(node: Node, disk: SlowDisk) -> None:
    replica = node.add(environment=disk)
    sinks = [node.append(make_batch()) for _ in range(3)]
    node._log_failed(replica, LogDirFailure("x", OSError("bad")))
    storage = ErrorCode.KAFKA_STORAGE_ERROR
    assert outcomes(*sinks) == [
        (storage, OUTCOME_UNKNOWN),
        (storage, OUTCOME_NOT_APPENDED),
        (storage, OUTCOME_NOT_APPENDED),
    ]
    assert disk.stall.waiting_bytes == 0
    assert outcomes(node.append(make_batch())) == [(storage, OUTCOME_NOT_APPENDED)]


def test_a_late_write_that_cannot_begin_fails_the_replica(node: Node, disk: SlowDisk) -> None:
    node.add(environment=disk, segment_bytes=len(make_batch()))
    first, second, third = (node.append(make_batch()) for _ in range(3))

    def refuse(*_: object) -> int:
        raise OSError("no new segment")

    disk.filesystem.open = refuse
    disk.finish()
    assert first.codes == {0: 0}
    assert [str(failure) for failure in node.log_failures] != []
    storage = ErrorCode.KAFKA_STORAGE_ERROR
    assert outcomes(second, third) == [(storage, OUTCOME_UNKNOWN), (storage, OUTCOME_NOT_APPENDED)]
    assert disk.jobs == []


def test_leadership_is_lost_and_regained_during_a_write(node: Node, disk: SlowDisk) -> None:
    replica = node.add(environment=disk)
    first, second = node.append(make_batch()), node.append(make_batch())
    follow(replica, 2, EPOCH + 1)
    assert outcomes(first, second) == [
        (ErrorCode.REQUEST_TIMED_OUT, OUTCOME_UNKNOWN),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, OUTCOME_NOT_APPENDED),
    ]
    lead(replica, EPOCH + 2)
    third = node.append(make_batch(), epoch=EPOCH + 2)
    waiting = node.fetch(ask(0))
    disk.finish()
    assert (waiting.answers, replica.high_watermark, third.results) == (1, 1, [])
    disk.finish()
    assert third.offsets == {0: 1}
    assert replica.log.epochs.cache.latest == EPOCH + 2
    assert len(first.results) == len(second.results) == 1


def test_an_empty_epoch_is_removed_when_a_late_write_ends_behind_its_start(
    node: Node, disk: SlowDisk
) -> None:
    """The replica led in that epoch during the write, and follows now."""
    replica = node.add(environment=disk)
    node.append(make_batch())
    follow(replica, 2, EPOCH + 1)
    lead(replica, EPOCH + 2)
    follow(replica, 2, EPOCH + 3)
    disk.finish()
    assert replica.log.log_end_offset == 1
    assert replica.log.epochs.cache.entries() == [(EPOCH, 0)]


def test_a_write_that_ends_after_leadership_was_lost_is_flushed(node: Node, disk: SlowDisk) -> None:
    """flush.messages asks for it, and a follower fetches only when its whole log counts."""
    replica = node.add(environment=disk, flush_messages=1)
    replica.port = port = Port()
    node.append(make_batch())
    follow(replica, 2, EPOCH + 1)
    disk.finish()
    assert replica.log.durability.recovery_point == replica.core.counted_end_offset == 1
    assert port.asked[-1] == ("follow", 2, EPOCH + 1)
    assert replica.core.may_ask()


def test_a_write_that_ends_after_leadership_was_regained_is_flushed(
    node: Node, disk: SlowDisk
) -> None:
    replica = node.add(environment=disk, flush_messages=1)
    node.append(make_batch())
    follow(replica, 2, EPOCH + 1)
    lead(replica, EPOCH + 2)
    waiting = node.fetch(ask(0))
    disk.finish()
    assert (replica.log.durability.recovery_point, replica.high_watermark, waiting.answers) == (
        1,
        1,
        1,
    )


def test_a_replica_is_taken_offline_during_a_write(node: Node, disk: SlowDisk) -> None:
    """It then follows no leader, least of all this node, which still leads in the image."""
    replica = node.add(environment=disk)
    replica.port = port = Port()
    sink = node.append(make_batch())
    replica.fail()
    assert outcomes(sink) == [(ErrorCode.KAFKA_STORAGE_ERROR, OUTCOME_UNKNOWN)]
    disk.finish()
    assert port.asked == [("stop",)]


def test_a_topic_is_deleted_during_a_write(node: Node, disk: SlowDisk) -> None:
    replica = node.add(environment=disk)
    first = node.append(make_batch())
    follow(replica, -1, EPOCH + 1)
    replica.log.closing.delete("0" * 32)
    disk.finish()
    assert outcomes(first) == [(ErrorCode.REQUEST_TIMED_OUT, OUTCOME_UNKNOWN)]


def test_a_bug_leaves_no_append_unanswered(
    node: Node, disk: SlowDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = node.add(environment=disk)
    first, second = node.append(make_batch()), node.append(make_batch())
    third = node.append(make_batch())

    def bug(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(replica.log.producers.states), "check", bug)
    node.append(make_batch(producer_id=5, producer_epoch=0, base_sequence=0))
    disk.finish()
    disk.finish()
    with pytest.raises(ZeroDivisionError):
        disk.finish()
    assert [sink.codes for sink in (first, second, third)] == [{0: 0}] * 3
    assert replica.failed
    assert disk.stall.waiting_bytes == 0
    assert node.append(make_batch()).codes == {0: ErrorCode.KAFKA_STORAGE_ERROR}


# ---- with real threads ----

SLOW_S = 0.3


class SlowFileSystem(FileSystem):
    """Writes of batches take 0.3 s."""

    def __init__(self) -> None:
        super().__init__()
        quick = self.pwritev
        self.slow = True

        def pwritev(fd: int, buffers: list[bytes], position: int) -> int:
            if self.slow:
                time.sleep(SLOW_S)
            return quick(fd, buffers, position)

        self.pwritev = pwritev


def topic(name: str, number: int) -> TopicState:
    return TopicState(
        topic_id=TopicId(bytes([number]) * 16), instance=DEFAULT_INSTANCE, name=name, partitions=()
    )


async def answered(*sinks: Sink) -> None:
    async with asyncio.timeout(20):
        while not all(sink.results for sink in sinks):
            await asyncio.sleep(0.001)


class TwoDirectories:
    """A node's data plane with a slow and a fast directory, and a leading replica in each."""

    def __init__(self, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        self.disk = SlowFileSystem()
        for name in ("slow", "quick"):
            (directory / name).mkdir()
        self.manager = LogManager(
            [directory / "slow", directory / "quick"],
            clock=ManualClock(),
            post=loop.call_soon_threadsafe,
            on_dir_failure=lambda *_: None,
            make_filesystem=lambda path: self.disk if path.endswith("slow") else FileSystem(),
        )
        self.manager.open()
        self.manager.start()
        self.plane = DataPlane(loop.call_later, lambda *_: None)
        self.replicas = [self._lead(topic(name, n)) for n, name in enumerate(("slow", "quick"))]

    def _lead(self, state: TopicState) -> PartitionReplica:
        log, log_dir = self.manager.open_log(state, 0)
        replica = PartitionReplica(
            node=NODE,
            topic_id=state.topic_id,
            topic_name=state.name,
            partition=0,
            log=log,
            log_dir=log_dir,
            policy=AppendPolicy(),
            clock=ManualClock(),
            on_log_failure=lambda *_: None,
            flush=self.manager.flush,
        )
        lead(replica, EPOCH)
        self.plane.replicas[state.topic_id, 0] = replica
        return replica

    def append(self, number: int) -> Sink:
        sink = Sink()
        topic_id = self.replicas[number].topic_id
        self.plane.append([group_of(make_batch(), sink=sink, epoch=EPOCH, topic_id=topic_id)])
        return sink


class Heartbeats:
    """Work that the loop should do every few milliseconds."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            self.longest_s = max(self.longest_s, time.monotonic() - before)

    def stop(self) -> None:
        self._task.cancel()


async def test_a_slow_directory_does_not_delay_the_other_one(tmp_path: Path) -> None:
    node = TwoDirectories(tmp_path)
    assert [replica.log_dir for replica in node.replicas] == [0, 1]
    node.append(0)  # The only write on the loop: its time starts the stall.
    beats = Heartbeats()
    began = time.monotonic()
    slow = [node.append(0) for _ in range(4)]
    worst = 0.0
    while not slow[-1].results:
        sent = time.monotonic()
        await answered(node.append(1))
        worst = max(worst, time.monotonic() - sent)
        assert time.monotonic() - began < 20
        await asyncio.sleep(0.01)
    assert time.monotonic() - began >= 4 * SLOW_S
    assert [sink.offsets[0] for sink in slow] == [1, 2, 3, 4]
    assert worst < 0.05
    assert beats.longest_s < SLOW_S / 2
    node.disk.slow = False
    await answered(*[node.append(0) for _ in range(FAST_WRITES_TO_RECOVER)])
    assert node.append(0).offsets == {0: FAST_WRITES_TO_RECOVER + 5}, "written at once again"
    beats.stop()
    node.manager.close()


async def test_a_node_stops_during_a_slow_write(tmp_path: Path) -> None:
    node = TwoDirectories(tmp_path)
    written, last = node.append(0), node.append(0)
    assert node.manager.close(timeout_s=10) == []
    await asyncio.sleep(0.01)  # Now the thread calls back, after the log was closed.
    assert (written.offsets, last.results) == ({0: 0}, [])
    assert not (tmp_path / "slow" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "quick" / ".kafka_cleanshutdown").exists()
    again = LogManager(
        [tmp_path / "slow", tmp_path / "quick"],
        clock=ManualClock(),
        post=asyncio.get_running_loop().call_soon_threadsafe,
        on_dir_failure=lambda *_: None,
    )
    again.open()
    log, _ = again.open_log(topic("slow", 0), 0)
    assert log.log_end_offset == 2, "it was written whole, though nobody was told"
    again.start()
    again.close()
