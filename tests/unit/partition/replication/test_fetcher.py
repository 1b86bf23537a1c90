"""One stream to a leader: answers are carried out, and each partition's trouble is its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import NodeState
from highwater.model.ids import NodeId
from highwater.partition.data_plane import following
from highwater.partition.data_plane.late_rows import LateRows
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.fetcher import ANSWER_PATIENCE_MS, ReplicaFetcher
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import EPOCH, Node, stored
from tests.unit.partition.data_plane.roles import follow, lead
from tests.unit.partition.replication.channel import Channel, answer_to, until

LEADER = NodeState(
    node_id=NodeId(2), node_epoch=9, address="leader:1", rack="", incarnation="first"
)


class Follower(Node):
    """Partitions 0 and 1 follow node 2, over a channel that the test plays."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.replicas = [self.add(partition, lead=False) for partition in range(2)]
        for replica in self.replicas:
            follow(replica, LEADER.node_id, EPOCH)
        self.channel = Channel()
        self.retries: list[PartitionReplica] = []
        self.over: list[PartitionReplica] = []
        self.broken: list[PartitionReplica] = []
        self.fetcher = ReplicaFetcher(
            LEADER,
            self.channel,  # type: ignore[arg-type]
            identity=lambda: (1, 50),
            late=LateRows(resume=lambda _replica: None, flush=lambda _log, done: done()),
            retry=self.retries.append,
            over=self._over,
            on_bug=lambda replica, _error: self.broken.append(replica),
            clock=self.clock,
            log=silent_logger(),
        )
        self.ended: list[BaseException] = []
        self.owner = TaskOwner(lambda _name, error: self.ended.append(error))

    def _over(self, replica: PartitionReplica) -> None:
        self.over.append(replica)
        self.fetcher.stop_following(replica)


@pytest.fixture
async def node(tmp_path: Path):
    made = Follower(tmp_path)
    made.owner.start(made.fetcher.run(), name="fetcher")
    for replica in made.replicas:
        made.fetcher.follow(replica, due=True)
    yield made
    await made.owner.close(timeout_s=1)
    assert made.ended == []
    assert made.channel.closed


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


async def test_the_leader_is_asked_on_while_it_only_tells_offsets(node: Follower) -> None:
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


async def test_who_leads_by_now_is_not_asked_for_any_more(node: Follower) -> None:
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


async def test_a_leader_that_is_away_is_not_waited_for_by_who_leads(node: Follower) -> None:
    call = await node.channel.requested(1)
    lead(node.replicas[1], EPOCH + 1)
    node.channel.connects = False
    call.end()
    await until(lambda: node.over == [node.replicas[1]])
    assert len(node.fetcher.session) == 1


async def test_malformed_messages_end_the_connection(node: Follower) -> None:
    call = await node.channel.requested(1)
    call.send(b"nonsense")
    await until(lambda: len(node.channel.calls) == 2)
    assert call.cancelled
    call = await node.channel.requested(1)
    call.answer(7)
    await until(lambda: len(node.channel.calls) == 3)


async def test_a_leader_that_does_not_answer_is_connected_to_anew(node: Follower) -> None:
    call = await node.channel.requested(1)
    node.clock.now_ms += ANSWER_PATIENCE_MS
    node.fetcher.check()
    await asyncio.sleep(0.01)
    assert not call.cancelled
    node.clock.now_ms += 1
    node.fetcher.check()
    await until(lambda: len(node.channel.calls) == 2)
    await node.channel.requested(1)
