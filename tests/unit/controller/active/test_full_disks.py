"""The task that takes leaderships from full disks."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.active import full_disks
from highwater.controller.active.full_disks import FullDisks
from highwater.controller.core.full_replicas import FullReplicas
from highwater.controller.core.membership import ElectionRules
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.store.port import StoreUnavailableError
from highwater.metadata.controller_client import ControllerClient
from highwater.model.ids import NodeId
from highwater.runtime.logging import silent_logger
from highwater.runtime.slices import Slices
from tests.support.controller import endpoints_of, node, started, topic
from tests.unit.controller.active.test_leader_batches import KEYS, TOPIC, World

ALL = {TOPIC.topic_id: frozenset(range(7))}
ONE, TWO = NodeId(1), NodeId(2)
"""Two leads at first."""


class Full(World):
    def __init__(self, *, pause_ms=0):
        super().__init__()
        self.told = FullReplicas(lambda: 0, pause_ms=pause_ms)
        rules = ElectionRules(
            min_isr=lambda _: 1,
            unclean=lambda _: False,
            avoided=self.told.avoided,
        )
        self.task = FullDisks(self, self.told, rules, dict, self, Slices(), silent_logger())

    def note(self, node, replicas):
        self.told.note(node, replicas)


async def test_leaders_leave_once_and_come_back_only_by_the_balance():
    w = Full()
    assert await w.task.round() == 0
    w.note(TWO, ALL)
    assert await w.task.round() == 7
    assert w.leaders() == [1] * 7
    assert await w.task.round() == 0
    w.note(TWO, {})
    assert await w.task.round() == 0
    assert w.leaders() == [1] * 7


async def test_if_all_disks_are_full_nobody_is_asked():
    w = Full()
    w.note(TWO, ALL)
    w.note(ONE, ALL)
    assert await w.task.round() == 0
    assert w.asked == []
    w.note(ONE, {TOPIC.topic_id: frozenset({3})})
    assert await w.task.round() == 6
    assert w.leaders() == [1, 1, 1, 2, 1, 1, 1]


async def test_a_node_with_space_for_a_moment_gets_no_leaders():
    w = Full(pause_ms=1_000)
    w.note(ONE, ALL)
    w.note(ONE, {})
    w.note(TWO, ALL)
    assert await w.task.round() == 0


async def test_a_leader_whose_successor_lags_is_left_in_peace_for_a_while(monkeypatch):
    w = Full()
    w.lagging = frozenset(KEYS[:1])
    w.note(TWO, ALL)
    assert await w.task.round() == 6
    assert await w.task.round() == 0
    assert w.asked == [7]
    w.lagging = frozenset()
    loop = asyncio.get_running_loop()
    later_s = loop.time() + full_disks.REST_S
    monkeypatch.setattr(loop, "time", lambda: later_s)
    assert await w.task.round() == 1
    assert w.leaders() == [1] * 7


@pytest.mark.parametrize("news", [False, True])
async def test_if_nothing_could_move_the_next_look_is_later_or_after_news(news, monkeypatch):
    w = Full()
    w.note(TWO, ALL)
    image = w.image
    w.image = replace(image, nodes={**image.nodes, ONE: replace(image.nodes[ONE], fenced=True)})
    assert await w.task.round() == 0
    w.image = image
    assert await w.task.round() == 0
    if news:
        w.note(TWO, {TOPIC.topic_id: frozenset({0})})
    else:
        loop = asyncio.get_running_loop()
        later_s = loop.time() + full_disks.FUTILE_S
        monkeypatch.setattr(loop, "time", lambda: later_s)
    assert await w.task.round() == (1 if news else 7)


async def test_nodes_that_are_gone_are_forgotten():
    w = Full()
    w.note(NodeId(9), ALL)
    await w.task.round()
    assert w.told.told == {}


async def test_it_goes_on_after_a_store_failure(monkeypatch):
    monkeypatch.setattr(full_disks, "LOOK_S", 0)
    w = Full()
    rounds = []

    async def broken():
        rounds.append(1)
        raise NotActiveError if len(rounds) == 3 else StoreUnavailableError("no")

    monkeypatch.setattr(w.task, "round", broken)
    with pytest.raises(NotActiveError):
        await asyncio.wait_for(w.task.run(), 5)


async def test_a_controller_asks_the_leader_to_hand_over_and_gives_the_leadership_back(monkeypatch):
    monkeypatch.setattr(full_disks, "LOOK_S", 0.05)
    async with AsyncExitStack() as stack:
        service = await started(session_timeout_ms=60_000, leader_imbalance_check_interval_ms=200)
        stack.push_async_callback(service.stop)
        active = await service.wait_active(10)
        client = ControllerClient(endpoints_of(service))
        one = await node(client, 1).join()
        await node(client, 2).join()
        assigned = [pb.Assignment(partition=0, replicas=[1, 2])]
        made = await client.create_topics(
            pb.CreateTopicsRequest(topics=[topic("t", -1, -1, assignments=assigned)])
        )
        topic_id = made.results[0].topic.topic_id
        full = [pb.FullReplicas(topic_id=topic_id, partitions=[0])]

        def partition():
            return active.image.topics[topic_id].partitions[0]

        async def beat_until(done, **fields):
            async with asyncio.timeout(20):
                while not done(answer := await one.beat(**fields)):
                    await asyncio.sleep(0.02)
            return answer

        asked = await beat_until(lambda answer: answer.hand_over, full_replicas=full)
        (wish,) = asked.hand_over
        assert (wish.successor, partition().leader) == (2, 1), "it leads until it has handed over"
        ready = pb.HandedOver(
            topic_id=topic_id, partition=0, leader_epoch=wish.leader_epoch, ready=True
        )
        await beat_until(lambda _: partition().leader == 2, full_replicas=full, handed_over=[ready])
        assert set(partition().isr) == {1, 2}
        await beat_until(lambda _: partition().leader == 1)
