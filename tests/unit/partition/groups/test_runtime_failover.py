"""Two nodes' coordinators over real logs, whose records the test copies between them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import iter_batches
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.coordinator.snapshot import FileSnapshotStore, decode_snapshot
from highwater.partition.core.replica_events import LogTruncated
from highwater.partition.groups.kind import SNAPSHOT_FILE_NAME, SNAPSHOT_MAGIC
from highwater.runtime.clock import SystemClock
from tests.support.log_batches import append
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.coordinator.waiting import until
from tests.unit.partition.data_plane import node as data_plane
from tests.unit.partition.data_plane.roles import NODE, follower_fetched, image_says
from tests.unit.partition.groups.node import Node, is_active
from tests.unit.partition.groups.test_runtime import commit, committed, fetch_all

OTHER = 2
SMALL = HostSettings(snapshot_bytes=400, commit_timeout_ms=50)


class Side:
    """A node that calls itself 1 and the other node 2."""

    def __init__(self, directory) -> None:
        directory.mkdir()
        plane = data_plane.Node(directory)
        plane.clock.now_ms = SystemClock().wall_ms()
        self.replica = plane.add(lead=False)
        self.log = self.replica.log
        view = DataPlaneLog(plane.plane)
        view.topic = SimpleNamespace(topic_id=TOPIC)
        self.view = view
        self.node = Node(view, FileSnapshotStore(SNAPSHOT_FILE_NAME), settings=SMALL)
        self.snapshot_path = directory / "orders-0" / SNAPSHOT_FILE_NAME

    async def lead(self, epoch: int, isr: tuple[int, ...] = (NODE, OTHER)) -> None:
        both = (NODE, OTHER)
        image_says(self.replica, leader=NODE, epoch=epoch, replicas=both, isr=isr)
        self.node.coordinator.become_leader(0, epoch)
        await until(lambda: is_active(self.node.coordinator, 0))

    def follow(self, epoch: int) -> None:
        image_says(self.replica, leader=OTHER, epoch=epoch, replicas=(NODE, OTHER))
        self.node.coordinator.resign(0)

    def fetch_from(self, leader: Side) -> None:
        """Copies the leader's whole log and fetches again."""
        log = self.log
        self.cut_to(common_end(self, leader))
        for batch in iter_batches(leader.view.read(0, log.log_end_offset, 1 << 20)):
            if batch.base_offset >= log.log_end_offset:
                append(log, bytes(batch.buf[batch.start : batch.end]), epoch=batch.leader_epoch)
        told = leader.replica.high_watermark
        self.replica.moved(
            self.replica.core.replicated(log.log_end_offset, log.log_end_offset, told)
        )
        if leader.replica.leading:
            follower_fetched(leader.replica, OTHER, log.log_end_offset)

    def cut_to(self, offset: int) -> None:
        self.log.truncate_to(offset)
        core = self.replica.core
        core.handle(
            LogTruncated(
                log_start_offset=self.log.log_start_offset, log_end_offset=self.log.log_end_offset
            )
        )
        self.log.stored_high_watermark = core.high_watermark

    async def told(self) -> dict[tuple[str, int], int]:
        return committed(await self.node.ask(fetch_all(), 7))


def common_end(one: Side, other: Side) -> int:
    batches = [list(iter_batches(side.view.read(0, 0, 1 << 20))) for side in (one, other)]
    end = 0
    for mine, theirs in zip(*batches, strict=False):
        if (mine.base_offset, mine.leader_epoch) != (theirs.base_offset, theirs.leader_epoch):
            break
        end = mine.last_offset + 1
    return end


@pytest.fixture
def sides(tmp_path):
    made = Side(tmp_path / "a"), Side(tmp_path / "b")
    yield made
    for side in made:
        side.node.coordinator.resign(0)
        side.log.close(clean=False)


async def acknowledged(leader: Side, follower: Side, offset: int, partition: int = 0) -> None:
    sent = leader.node.submit(commit(offset, partition=partition), 8)
    await until(lambda: leader.log.log_end_offset > leader.replica.high_watermark or sent.done)
    assert not sent.done, "the follower has it not yet"
    follower.fetch_from(leader)
    await until(lambda: sent.done)
    assert sent.response.topics[0].partitions[0].error_code == 0


async def test_state_goes_on_where_the_log_does(sides):
    one, two = sides
    await one.lead(4)
    two.follow(4)
    await acknowledged(one, two, 41)
    await acknowledged(one, two, 42)
    one.follow(5)
    # Its high watermark is older than what the former leader has acknowledged.
    assert two.replica.high_watermark < two.log.log_end_offset
    await two.lead(5)
    read = two.node.submit(fetch_all(), 7)
    assert not read.done
    one.fetch_from(two)
    await until(lambda: read.done)
    assert committed(read.response) == {("t", 0): 42}
    await acknowledged(two, one, 43)
    assert await two.told() == {("t", 0): 43}


async def test_records_that_a_former_leader_never_committed_are_dropped(sides):
    one, two = sides
    await one.lead(4)
    two.follow(4)
    await acknowledged(one, two, 1)
    vain = one.node.submit(commit(2), 8)
    unread = one.node.submit(fetch_all(), 7)
    await until(lambda: one.log.log_end_offset == 2)
    await two.lead(5)
    await until(lambda: vain.done)  # The old leader does not know of it, and its call times out.
    assert vain.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await until(lambda: unread.done)
    assert unread.code == ErrorCode.NOT_COORDINATOR
    another = one.node.submit(commit(2), 8)
    await until(lambda: one.log.log_end_offset == 3)
    one.follow(5)
    assert another.code == ErrorCode.NOT_COORDINATOR
    one.fetch_from(two)
    assert one.log.log_end_offset == 1, "they were cut off"
    await acknowledged(two, one, 7, partition=1)
    two.follow(6)
    await one.lead(6)
    two.fetch_from(one)
    assert await one.told() == {("t", 0): 1, ("t", 1): 7}


async def test_a_leader_that_leads_again_loads_its_old_snapshot(sides):
    one, two = sides
    await one.lead(4)
    two.follow(4)
    for n in range(6):  # The snapshot is due after four.
        await acknowledged(one, two, n)
    await until(one.snapshot_path.exists)
    snapshot = decode_snapshot(one.snapshot_path.read_bytes(), SNAPSHOT_MAGIC)
    assert snapshot.last_epoch == 4
    assert 0 < snapshot.offset <= one.replica.high_watermark
    one.follow(5)
    await two.lead(5)
    one.fetch_from(two)
    await acknowledged(two, one, 100, partition=1)
    two.follow(6)
    read_from = []
    read = one.view.read
    one.view.read = lambda p, offset, size: read_from.append(offset) or read(p, offset, size)
    await one.lead(6)
    assert read_from[0] == snapshot.offset, "only what lies behind the snapshot"
    two.fetch_from(one)
    assert await one.told() == {("t", 0): 5, ("t", 1): 100}


async def test_snapshot_of_records_that_were_lost_is_not_used(sides):
    """After an unclean election, other records have the snapshot's offsets."""
    one, two = sides
    await one.lead(4)
    two.follow(4)
    for n in range(6):  # The snapshot is due after four.
        await acknowledged(one, two, n)
    await until(one.snapshot_path.exists)
    kept = decode_snapshot(one.snapshot_path.read_bytes(), SNAPSHOT_MAGIC).offset - 2
    one.follow(5)
    two.cut_to(kept)
    await two.lead(5, isr=(NODE,))
    for n in range(20, 24):
        await two.node.ask(commit(n, partition=1), 8)
    one.fetch_from(two)
    assert (
        decode_snapshot(one.snapshot_path.read_bytes(), SNAPSHOT_MAGIC).offset
        < one.log.log_end_offset
    )
    two.follow(6)
    await one.lead(6, isr=(NODE,))
    assert await one.told() == {("t", 0): kept - 1, ("t", 1): 23}


async def test_the_next_epoch_of_the_same_leader_loads_again(sides):
    one, two = sides
    await one.lead(4)
    two.follow(4)
    await acknowledged(one, two, 1)
    pending = one.node.submit(commit(2), 8)
    await until(lambda: one.log.log_end_offset == 2)
    await one.lead(5)
    assert pending.code == ErrorCode.NOT_COORDINATOR
    two.follow(5)
    two.fetch_from(one)
    assert await one.told() == {("t", 0): 2}, "it was in the log, so it counts after all"
