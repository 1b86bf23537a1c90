"""One stream to a leader: answers are applied, and a partition's error affects only itself."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.hop.channels import HopChannels
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import MAGIC_AT
from highwater.model.cluster import NodeState
from highwater.model.ids import NodeId
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.follower import following
from highwater.partition.replication.follower.fetcher import ANSWER_PATIENCE_MS, ReplicaFetcher
from highwater.partition.replication.follower.late_rows import LateRows
from highwater.partition.replication.rows import Asked, SegmentPlace
from highwater.partition.replication.throttle import Side, Throttle
from highwater.partition.replication.traffic import ReplicaTraffic
from highwater.partition.storage.errors import DamagedHeaderError, StorageError
from highwater.runtime.logging import silent_logger
from tests.support.log_batches import forget_positions, make_batch
from tests.unit.partition.data_plane.node import EPOCH, Node, stored
from tests.unit.partition.data_plane.roles import NODE, follow, image_says, lead
from tests.unit.partition.replication.channel import Channel, answer_to, until

LEADER = NodeState(
    node_id=NodeId(2), node_epoch=9, address="leader:1", rack="", incarnation="first"
)


class Follower(Node):
    """Partitions 0 and 1 follow node 2, over a fake channel."""

    def __init__(self, directory: Path, leader: NodeState = LEADER) -> None:
        super().__init__(directory)
        self.replicas = [self.add(partition, lead=False) for partition in range(2)]
        for replica in self.replicas:
            follow(replica, LEADER.node_id, EPOCH)
        self.channel = Channel()
        self.retries: list[PartitionReplica] = []
        self.over: list[PartitionReplica] = []
        self.broken: list[PartitionReplica] = []
        self.throttle = Throttle(Side.FOLLOWER)
        self.traffic = ReplicaTraffic()
        self.fetcher = ReplicaFetcher(
            leader,
            HopChannels(lambda *_where: self.channel),  # type: ignore[arg-type,return-value]
            identity=lambda: (1, 50),
            late=LateRows(resume=lambda _replica: None, flush=lambda _log, done: done()),
            retry=self.retries.append,
            over=self._over,
            on_bug=lambda replica, _error: self.broken.append(replica),
            on_failure=lambda _name, error: self.ended.append(error),
            clock=self.clock,
            log=silent_logger(),
            throttle=self.throttle,
            traffic=self.traffic,
            reads_files=True,
        )
        self.ended: list[BaseException] = []

    def _over(self, replica: PartitionReplica) -> None:
        self.over.append(replica)
        self.fetcher.stop_following(replica)


@pytest.fixture
async def node(tmp_path: Path):
    made = Follower(tmp_path)
    begin(made)
    yield made
    await end(made)


def begin(made: Follower) -> None:
    made.fetcher.start()
    for replica in made.replicas:
        made.fetcher.follow(replica, due=True)


async def end(made: Follower) -> None:
    await made.fetcher.close()
    assert made.ended == []
    assert made.channel.is_closed


async def test_records_are_appended_and_the_next_request_acknowledges_them(node: Follower) -> None:
    call = await node.channel.requested(1)
    assert (call.requests[0].node_id, call.requests[0].node_epoch) == (1, 50)
    a, b = call.asked
    batches = [make_batch(base_offset=0), make_batch(base_offset=0, timestamps=(1, 2))]
    call.answer(1, [answer_to(a, batches[0], high_watermark=1), answer_to(b, batches[1])])
    await node.channel.requested(2)
    assert [(asked.partition, asked.fetch_offset) for asked in call.asked] == [(0, 1), (1, 2)]
    assert [stored(replica) for replica in node.replicas] == batches
    assert node.replicas[0].high_watermark == 1


async def test_requests_go_on_while_answers_have_only_offsets(node: Follower) -> None:
    call = await node.channel.requested(1)
    call.answer(1, [answer_to(call.asked[0])])
    await node.channel.requested(2)
    assert call.asked == []


async def test_refusals_and_unsound_answers_are_tried_again(node: Follower) -> None:
    call = await node.channel.requested(1)
    a, b = call.asked
    torn = make_batch()
    torn[-1] ^= 1
    call.answer(1, [answer_to(a, error_code=ErrorCode.FENCED_LEADER_EPOCH), answer_to(b, torn)])
    await until(lambda: len(node.retries) == 2)
    assert node.retries == node.replicas
    assert len(call.requests) == 1, "there is nothing to ask"
    node.fetcher.ask_again(node.replicas[1])
    await node.channel.requested(2)
    assert [asked.partition for asked in call.asked] == [1]
    assert stored(node.replicas[1]) == b""


async def test_a_replica_that_became_leader_is_no_longer_requested(node: Follower) -> None:
    call = await node.channel.requested(1)
    lead(node.replicas[0], EPOCH + 1)
    call.answer(1, [answer_to(call.asked[0], make_batch())])
    await node.channel.requested(2)
    assert node.over == [node.replicas[0]]
    assert list(node.fetcher.session.replicas()) == [node.replicas[1]]


async def test_a_bug_takes_one_partition_offline(
    node: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_fields: object) -> None:
        raise ZeroDivisionError

    call = await node.channel.requested(1)
    monkeypatch.setattr(following, "split_runs", broken)
    call.answer(1, [answer_to(call.asked[0], make_batch()), answer_to(call.asked[1])])
    await node.channel.requested(2)
    assert node.broken == node.over == [node.replicas[0]]
    assert [replica.failed for replica in node.replicas] == [True, False]


async def test_another_connection_asks_for_everything_again(node: Follower) -> None:
    call = await node.channel.requested(1)
    call.end()
    await until(lambda: len(node.channel.calls) == 2)
    call = await node.channel.requested(1)
    assert [asked.partition for asked in call.asked] == [0, 1]
    assert call.requests[0].request_id == 1


async def test_a_replica_that_became_leader_does_not_wait_for_the_former_one(
    node: Follower,
) -> None:
    call = await node.channel.requested(1)
    lead(node.replicas[1], EPOCH + 1)
    node.channel.connects = False
    call.end()
    await until(lambda: node.over == [node.replicas[1]])
    assert len(node.fetcher.session) == 1


async def test_malformed_messages_end_the_connection(node: Follower) -> None:
    call = await node.channel.requested(1)
    call.send_back(b"nonsense")
    await until(lambda: len(node.channel.calls) == 2)
    assert call.cancelled
    call = await node.channel.requested(1)
    call.answer(7)
    await until(lambda: len(node.channel.calls) == 3)


async def test_a_silent_leader_is_reconnected(node: Follower) -> None:
    call = await node.channel.requested(1)
    node.clock.now_ms += ANSWER_PATIENCE_MS
    node.fetcher.check()
    await asyncio.sleep(0.01)
    assert not call.cancelled
    node.clock.now_ms += 1
    node.fetcher.check()
    await until(lambda: len(node.channel.calls) == 2)
    await node.channel.requested(1)


# ---- the leader's files ----


class LeaderDisk:
    """A log directory of node 2 on this host."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.segment = directory / "orders-0" / "00000000000000000000.log"
        self.segment.parent.mkdir(parents=True)
        self.segment.write_bytes(b"")
        (directory / ".highwater_incarnation").write_text(LEADER.incarnation)

    def append(self, *batches: bytes, last_epoch: int = EPOCH) -> SegmentPlace:
        """Writes batches; returns their place."""
        data = b"".join(batches)
        status = self.segment.stat()
        with self.segment.open("ab") as file:
            file.write(data)
        place = (status.st_ino, status.st_size, len(data), last_epoch)
        return SegmentPlace("orders-0/00000000000000000000.log", 0, *place)


@pytest.fixture
def disk(tmp_path: Path) -> LeaderDisk:
    return LeaderDisk(tmp_path / "leader")


@pytest.fixture
async def near(tmp_path: Path, disk: LeaderDisk):
    """A follower on the leader's host."""
    (tmp_path / "follower").mkdir()
    made = Follower(tmp_path / "follower", replace(LEADER, log_dirs=(str(disk.directory),)))
    begin(made)
    yield made
    await end(made)


def bytes_only(call_request: object) -> list[int]:
    return [partition for _, partition in call_request.bytes_only]  # type: ignore[attr-defined]


async def test_records_are_read_where_the_leader_has_them(near: Follower, disk: LeaderDisk) -> None:
    call = await near.channel.requested(1)
    assert call.requests[0].accepts_references
    a, b = call.asked
    batches = [
        make_batch(base_offset=0, epoch=EPOCH - 1),
        make_batch(base_offset=1, epoch=EPOCH, timestamps=(1, 2)),
    ]
    place = disk.append(*batches)
    other = make_batch(base_offset=0)
    call.answer(1, [answer_to(a, records=place), answer_to(b, other)])
    await near.channel.requested(2)
    assert [(asked.partition, asked.fetch_offset) for asked in call.asked] == [(0, 3), (1, 1)]
    assert [stored(replica) for replica in near.replicas] == [b"".join(batches), other]
    assert near.traffic.bytes_in == {2: len(place) + len(other)}
    assert near.traffic.file_bytes_in == {2: len(place)}
    assert (bytes_only(call.requests[1]), near.traffic.missed_places) == ([], 0)


async def test_a_leader_elsewhere_sends_bytes(node: Follower) -> None:
    call = await node.channel.requested(1)
    assert not call.requests[0].accepts_references


def cut(disk: LeaderDisk) -> None:
    os.truncate(disk.segment, 5)


def write_anew(disk: LeaderDisk) -> None:
    """The leader was deposed, truncated its log, and has another epoch's records there now."""
    size = disk.segment.stat().st_size
    batch = make_batch(base_offset=0, epoch=EPOCH - 1)
    assert len(batch) == size
    os.truncate(disk.segment, 0)
    with disk.segment.open("ab") as file:
        file.write(batch)


def damage(disk: LeaderDisk) -> None:
    data = bytearray(disk.segment.read_bytes())
    data[-1] ^= 1
    with disk.segment.open("r+b") as file:
        file.write(data)


def remove(disk: LeaderDisk) -> None:
    disk.segment.unlink()


def overtake(disk: LeaderDisk) -> None:
    data = make_batch(base_offset=0, epoch=EPOCH + 1)
    with disk.segment.open("r+b") as file:
        file.write(data)


@pytest.mark.parametrize("change", [cut, write_anew, damage, overtake, remove])
async def test_records_not_at_their_place_are_requested_as_bytes_once(
    near: Follower, disk: LeaderDisk, change: object
) -> None:
    call = await near.channel.requested(1)
    a = call.asked[0]
    batch = make_batch(base_offset=0, epoch=EPOCH)
    place = disk.append(batch)
    change(disk)  # type: ignore[operator]
    call.answer(1, [answer_to(a, records=place)])
    await near.channel.requested(2)
    assert stored(near.replicas[0]) == b""
    assert (call.asked, bytes_only(call.requests[1])) == ([a], [0])
    assert near.traffic.missed_places == 1
    assert near.retries == []
    call.answer(2, [answer_to(a, batch, log_end_offset=1)])
    await near.channel.requested(3)
    assert stored(near.replicas[0]) == batch
    assert bytes_only(call.requests[2]) == [], "it has caught up, so places will do again"


async def test_records_that_begin_before_what_is_wanted_come_as_bytes(
    near: Follower, disk: LeaderDisk
) -> None:
    """An empty log begins with the batch in which the leader's log begins."""
    call = await near.channel.requested(1)
    replica = near.replicas[0]
    replica.log.truncate_fully_and_start_at(1)
    near.fetcher.stop_following(replica)
    follow(replica, LEADER.node_id, EPOCH + 1)
    near.fetcher.follow(replica, due=True)
    await near.channel.requested(2)
    asked = next(one for one in call.asked if one.partition == 0)
    place = disk.append(make_batch(base_offset=0, timestamps=(1, 2)))
    call.answer(1)
    call.answer(2, [answer_to(asked, records=place)])
    await near.channel.requested(3)
    assert bytes_only(call.requests[2]) == [0]


async def test_files_are_closed_in_the_end_and_when_they_are_gone(
    near: Follower, disk: LeaderDisk
) -> None:
    call = await near.channel.requested(1)
    call.answer(1, [answer_to(call.asked[0], records=disk.append(make_batch(base_offset=0)))])
    await near.channel.requested(2)
    files = near.fetcher._files._files
    assert files.open_files == 1
    disk.segment.unlink()
    near.fetcher.check()
    assert files.open_files == 0


# ---- the throttle ----


async def test_a_throttled_replica_is_requested_when_there_is_room(node: Follower) -> None:
    call = await node.channel.requested(1)
    a, b = call.asked
    node.throttle.partitions = frozenset({a[:2], b[:2]})
    node.throttle._rate = 1_000
    node.throttle._bucket.set_rate(node.clock.now_ms, 1_000)
    image_says(node.replicas[0], leader=2, epoch=EPOCH, replicas=(2, NODE), isr=(2,))
    batch = make_batch(base_offset=0, epoch=EPOCH, value=b"v" * 200)
    call.answer(1, [answer_to(a, batch), answer_to(b, batch)])
    await node.channel.requested(2)
    assert call.asked == [Asked(*b[:3], 1, EPOCH)], "it is in sync"
    assert node.throttle.passed_bytes == len(batch)
    call.answer(2)
    await node.channel.requested(3)
    assert call.asked == []
    node.clock.now_ms += 1_000
    await node.channel.requested(4)
    assert call.asked == [Asked(*a[:3], 1, EPOCH)], "at the next look"


def damage_second_of_three(replica: PartitionReplica) -> None:
    segment = replica.log.extent.active
    with Path(segment.file).open("r+b") as file:
        file.seek(segment.size // 3 + MAGIC_AT)
        file.write(b"\xff")
    forget_positions(replica.log)


async def test_a_replica_that_is_made_anew_while_it_is_cut_is_asked_for_from_its_beginning(
    node: Follower,
) -> None:
    call = await node.channel.requested(1)
    batches = [make_batch(base_offset=offset, epoch=1) for offset in range(3)]
    call.answer(1, [answer_to(call.asked[0], *batches)])
    await node.channel.requested(2)
    former = node.replicas[0]
    damage_second_of_three(former)

    def made_anew(replica: PartitionReplica, error: StorageError) -> None:
        assert isinstance(error, DamagedHeaderError)
        replica.fail()
        node.fetcher.stop_following(replica)
        shutil.rmtree(replica.log.directory)
        node.replicas[0] = node.add(lead=False)
        follow(node.replicas[0], LEADER.node_id, EPOCH)
        node.fetcher.follow(node.replicas[0], due=True)

    former._on_log_failure = made_anew
    (asked,) = call.asked
    call.answer(2, [answer_to(asked, diverging_epoch=1, diverging_end_offset=2)])
    await node.channel.requested(3)
    assert [(asked.partition, asked.fetch_offset) for asked in call.asked] == [(0, 0)]
    assert (node.over, node.broken) == ([former], [])
    call.answer(3, [answer_to(call.asked[0], *batches[:2])])
    await node.channel.requested(4)
    assert stored(node.replicas[0]) == b"".join(batches[:2])
