"""Before other replicas lead, nothing more is appended and they catch up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.hop.append import OUTCOME_NOT_APPENDED, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.hand_over import hand_over
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Owner
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow, follower_fetched, image_says
from tests.unit.partition.data_plane.test_replica_role import Port

ALL = -1


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def leader_of_three(
    node: Node, partition: int = 0, replicas: tuple[int, ...] = (1, 2, 3)
) -> PartitionReplica:
    replica = node.add(partition, lead=False)
    replica.port = Port()
    image_says(replica, leader=1, epoch=EPOCH, replicas=replicas)
    return replica


def fetched_all(replica: PartitionReplica, node: int) -> None:
    now_ms = replica.clock.monotonic_ms()
    follower_fetched(replica, node, replica.log.log_end_offset, now_ms=now_ms)


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0.01)


async def test_followers_catch_up_and_waiting_appends_are_answered(node: Node) -> None:
    replica = leader_of_three(node)
    alone, waiting = node.append(make_batch()), node.append(make_batch(), acks=ALL)
    assert (alone.codes, waiting.codes) == ({0: 0}, {})
    handing = asyncio.create_task(hand_over([replica], 5))
    while not replica.resigned:
        await turns(1)
    assert not handing.done()
    late = node.append(make_batch())
    assert late.codes == {}, "gateways hold groups in the order in which they were refused"
    assert replica.log.log_end_offset == 2
    follower_fetched(replica, 2, 2)
    await turns()
    assert not handing.done(), "the other one may be elected"
    follower_fetched(replica, 3, 2)
    assert await handing == []
    assert waiting.codes == {0: 0}
    # Gateways then hold this batch and all later ones until they know another leader.
    for sink in (late, node.append(make_batch())):
        assert sink.codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
        refusal = sink.results[0][2]
        assert refusal is not None
        assert (refusal.outcome, refusal.leader_epoch) == (OUTCOME_NOT_APPENDED, EPOCH + 1)
    assert replica.leading, "reads go on until the image names another"


async def test_the_wait_for_a_slow_follower_has_a_limit(node: Node) -> None:
    slow, quick = leader_of_three(node), leader_of_three(node, 1)
    node.append(make_batch())
    for follower in (2, 3):
        follower_fetched(quick, follower, 0)
    assert await hand_over([slow, quick], 0.02) == [slow]


async def test_a_follower_that_hangs_stops_only_its_own_partitions(node: Node) -> None:
    """The other partitions go on, and are handed over within milliseconds in the end."""
    slow, quick = leader_of_three(node), leader_of_three(node, 1, (1, 2))
    idle = leader_of_three(node, 2, (1, 3))
    follower_fetched(idle, 3, 0, now_ms=node.clock.monotonic_ms() - 100)
    sinks = [node.append(make_batch(), partition=0)]
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    handing = asyncio.create_task(hand_over([slow, quick, idle], 1.0))
    refused_s = 0.0
    while not handing.done():
        if quick.resigned and not refused_s:
            refused_s = loop.time()
        fetched_all(slow, 2)
        fetched_all(quick, 2)
        sinks.append(node.append(make_batch(), partition=1))
        assert slow.resigned == idle.resigned, "its next record would not be there in time"
        await asyncio.sleep(0.01)
    assert await handing == [slow]
    assert refused_s - begun_s > 0.9
    assert loop.time() - refused_s < 0.3
    taken = [sink.codes for sink in sinks].count({0: 0})
    assert taken > 10
    assert quick.log.log_end_offset == taken - 1
    assert quick.core.followers[2].log_end_offset == taken - 1, "acks=1 loses nothing"
    assert slow.resigned
    assert idle.resigned


async def test_a_partition_that_lags_does_not_stop_others_of_the_same_followers(
    node: Node,
) -> None:
    slow, quick = leader_of_three(node, 0, (1, 2)), leader_of_three(node, 1, (1, 2))
    node.append(make_batch(), partition=0)
    handing = asyncio.create_task(hand_over([slow, quick], 0.6))
    while not slow.resigned:
        fetched_all(quick, 2)
        await asyncio.sleep(0.01)
    for _ in range(3):
        assert not quick.resigned
        await asyncio.sleep(0.01)
    fetched_all(slow, 2)
    assert await handing == []
    assert quick.resigned


async def test_appends_that_wait_for_a_flush_are_answered_first(node: Node) -> None:
    """Its records are on the followers; after the hand-over no answer would say so."""
    replica = leader_of_three(node)
    replica.log.reconfigure(replace(replica.log.config, flush_messages=1))
    flushes: list[Callable[[], None]] = []
    replica.flush = lambda _log, done: flushes.append(done)
    sink = node.append(make_batch())
    for follower in (2, 3):
        follower_fetched(replica, follower, 1)
    handing = asyncio.create_task(hand_over([replica], 5))
    await turns()
    assert not handing.done()
    flushes.pop()()
    assert await handing == []
    assert sink.codes == {0: 0}


@pytest.mark.parametrize("relieved", [True, False], ids=["relieved", "failed"])
async def test_answers_keep_the_order_of_appends(node: Node, relieved: bool) -> None:
    replica = leader_of_three(node)
    answered: list[tuple[int, int]] = []

    def append(number: int, acks: int) -> None:
        def heard(_offsets: object, failures: Mapping[int, Failure] | None) -> None:
            answered.append((number, failures[0].error_code if failures else 0))

        group, _ = node.group(make_batch(), acks=acks, owner=Owner(heard))
        node.plane.append([group])

    append(0, ALL)
    assert await hand_over([replica], 0.01) == [replica]
    append(1, 1)
    append(2, ALL)
    assert answered == []
    if relieved:
        follow(replica, 2, EPOCH + 1)
    else:
        replica.fail()
    later = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answered == [(0, ErrorCode.REQUEST_TIMED_OUT), (1, later), (2, later)]
    append(3, 1)
    assert answered[-1] == (3, later)
    assert replica.log.stall.waiting_bytes == 0


async def test_the_only_replica_goes_on(node: Node) -> None:
    replica = node.add()
    assert await hand_over([replica], 5) == []
    assert node.append(make_batch()).codes == {0: 0}


async def test_a_leader_that_is_relieved_meanwhile_is_not_waited_for(node: Node) -> None:
    replica = leader_of_three(node)
    node.append(make_batch())
    handing = asyncio.create_task(hand_over([replica], 5))
    await turns(1)
    follow(replica, 2, EPOCH + 1)
    assert await handing == []
