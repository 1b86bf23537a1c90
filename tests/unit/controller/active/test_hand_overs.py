"""The controller asks leaders to hand over."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from highwater.controller.active import hand_overs
from highwater.controller.active.hand_overs import HandOvers
from highwater.controller.active.leader_batches import LeaderBatches
from highwater.controller.core.full_replicas import FullReplicas
from highwater.controller.core.hand_over import LeaderMove, waiting_moves
from highwater.controller.core.leave_full_disks import leave_full_disks
from highwater.controller.core.membership import ElectionRules, change_nodes, fence
from highwater.controller.core.partition_index import PartitionIndex, index_of
from highwater.controller.image.watch_hub import WatchHub
from highwater.controller.store.port import StoreUnavailableError
from highwater.model.cluster import ClusterImage
from highwater.model.ids import LeaderEpoch, NodeId, TopicId
from highwater.runtime.logging import silent_logger
from tests.support.controller_images import image_of, node_state, topic_state

TOPIC = TopicId(b"t" * 16)


def move(partition: int, leader: int = 1) -> LeaderMove:
    return LeaderMove(
        key=(TOPIC, partition), leader=NodeId(leader), leader_epoch=4, successor=NodeId(3)
    )


RULES = ElectionRules(min_isr=lambda _: 1, unclean=lambda _: False)


class World:
    fails = 0
    """How many commits the store does not take."""

    def __init__(self) -> None:
        self.image = self.led_in_epochs(4, 4, 4)
        self.hand_overs = HandOvers(self, RULES, dict, silent_logger())  # type: ignore[arg-type]
        self.elected: list[set[int]] = []
        self.hub: WatchHub | None = None

    @staticmethod
    def led_in_epochs(*epochs: int) -> ClusterImage:
        topic = topic_state("orders", [(1, 3)] * len(epochs))
        partitions = tuple(
            replace(one, leader_epoch=LeaderEpoch(epoch))
            for one, epoch in zip(topic.partitions, epochs, strict=True)
        )
        return image_of(topics=[replace(topic, topic_id=TOPIC, partitions=partitions)])

    async def commit(self, decide) -> tuple[int, int]:
        """As the writer, whose image this world has."""
        if self.fails:
            self.fails -= 1
            raise StoreUnavailableError
        decision = decide(self.image)
        delta = decision.delta
        if delta is not None:
            delta = replace(delta, revision=self.image.revision + 1)
            self.image = self.image.apply(delta)
            if self.hub is not None:
                self.hub.publish(self.image, delta)
        return decision.result, self.image.revision

    @property
    def index(self) -> PartitionIndex:
        return index_of(self.image)

    def moves(self) -> None:
        """From node 1 to node 3, and waits for its leader."""
        topic = topic_state("orders", [(3, 1)])
        moving = replace(
            topic.partitions[0],
            leader=NodeId(1),
            leader_epoch=LeaderEpoch(4),
            removing_replicas=(NodeId(1),),
        )
        nodes = [node_state(1), node_state(2), node_state(3)]
        self.image = image_of(nodes, [replace(topic, topic_id=TOPIC, partitions=(moving,))])
        self.hub = WatchHub(self.image)

    @property
    def replicas(self) -> tuple[int, ...]:
        return self.image.topics[TOPIC].partitions[0].replicas

    async def elect(self, keys) -> None:
        """Records it; a new leader has a new epoch."""
        numbers = {number for _, number in keys}
        self.elected.append(numbers)
        present = self.image.topics[TOPIC].partitions
        self.image = self.led_in_epochs(
            *(one.leader_epoch + (one.partition in numbers) for one in present)
        )

    def start(self, *moves: LeaderMove, timeout_s: float = 5.0) -> asyncio.Task:
        return asyncio.create_task(self.hand_overs.carry_out(moves, self.elect, timeout_s))

    def asked(self, node: int) -> list[int]:
        return [one.key[1] for one in self.hand_overs.asked_of(NodeId(node))]

    def answer(
        self,
        node: int,
        partition: int,
        *,
        ready: bool = True,
        epoch: int = 4,
        successor: int | None = None,
    ) -> None:
        self.hand_overs.answered(
            NodeId(node), (TOPIC, partition), epoch, ready=ready, successor=successor
        )


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_ready_leader_is_replaced_at_once() -> None:
    world = World()
    task = world.start(move(0), move(1), move(2, leader=2))
    await turn()
    assert (world.asked(1), world.asked(2), world.asked(3)) == ([0, 1], [2], [])
    world.answer(1, 0)
    await turn()
    assert world.elected == [{0}]
    assert world.asked(1) == [1]
    world.answer(1, 1)
    world.answer(2, 2)
    assert await task == frozenset()
    assert world.elected == [{0}, {1, 2}]
    assert world.asked(1) == []


async def test_the_caller_learns_which_leaders_go_on() -> None:
    world = World()
    task = world.start(move(0), move(1))
    await turn()
    world.answer(1, 0, ready=False)
    world.answer(1, 1)
    assert await task == {(TOPIC, 0)}
    assert world.elected == [{1}]


async def test_a_leader_that_does_not_answer_is_replaced_anyway() -> None:
    world = World()
    assert await world.start(move(0), timeout_s=0.01) == frozenset()
    assert world.elected == [{0}]
    assert await world.start(move(1), timeout_s=0) == frozenset()
    assert world.elected == [{0}, {1}]


async def test_answers_of_other_nodes_and_epochs_do_not_count() -> None:
    world = World()
    task = world.start(move(0))
    await turn()
    world.answer(2, 0)
    world.answer(1, 0, epoch=3)
    world.answer(1, 7)
    await turn()
    assert world.elected == []
    world.answer(1, 0)
    await task
    assert world.elected == [{0}]


async def test_an_answer_to_the_question_for_another_successor_does_not_count() -> None:
    """A leader repeats it for two seconds."""
    world = World()
    task = world.start(move(0))
    await turn()
    world.answer(1, 0, successor=2)
    await turn()
    assert (world.elected, world.asked(1)) == ([], [0])
    world.answer(1, 0, successor=3)
    await task
    assert world.elected == [{0}]


async def test_leaders_of_later_epochs_have_not_been_asked() -> None:
    world = World()
    task = world.start(move(0), move(1), move(2), timeout_s=0.05)
    await turn()
    world.image = world.led_in_epochs(5, 5, 4)
    world.answer(1, 0)
    await turn()
    assert world.elected == [], "an answer that came late"
    assert await task == frozenset()
    assert world.elected == [{2}], "who did not answer and leads still"


async def test_a_move_whose_leader_has_gone_over_to_a_replica_that_stays_is_completed() -> None:
    """By a preferred election, say: then nobody has to hand over."""
    world = World()
    topic = topic_state("orders", [(3, 1)])
    moving = replace(topic.partitions[0], removing_replicas=(NodeId(1),))
    nodes = [node_state(1), node_state(3)]
    world.image = image_of(nodes, [replace(topic, topic_id=TOPIC, partitions=(moving,))])
    keys = frozenset(waiting_moves(world.image))
    assert keys == {(TOPIC, 0)}
    assert await world.hand_overs._try_to_finish(keys, give_up=False) == frozenset()
    (after,) = world.image.topics[TOPIC].partitions
    assert (after.replicas, after.leader, after.removing_replicas) == ((3,), 3, ())


async def test_moves_of_the_former_term_have_their_leaders_hand_over() -> None:
    world = World()
    world.moves()
    running = asyncio.create_task(world.hand_overs.run())
    await turn()
    assert (world.asked(1), world.replicas) == ([0], (3, 1))
    world.answer(1, 0)
    await turn()
    running.cancel()
    assert world.replicas == (3,)


async def test_a_move_that_the_store_did_not_take_is_finished_with_a_later_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Elections do not complete it: its leader lives."""
    monkeypatch.setattr(hand_overs, "MOVE_PAUSE_S", 0.0)
    world = World()
    world.moves()
    world.fails = hand_overs.MOVE_TRIES
    running = asyncio.create_task(world.hand_overs.run())
    for _ in range(hand_overs.MOVE_TRIES):
        await turn()
        world.answer(1, 0)
        await turn()
    assert (world.fails, world.replicas) == (0, (3, 1))
    node = world.image.nodes[NodeId(2)]
    await world.commit(lambda image: change_nodes(image, [fence(node)], RULES))
    await turn()
    assert (world.asked(1), world.replicas) == ([0], (3, 1))
    world.answer(1, 0)
    await turn()
    running.cancel()
    assert world.replicas == (3,)


async def test_nobody_is_elected_but_the_successor_that_the_leader_was_asked_for() -> None:
    """The leader waited for one replica only. Another one in sync may lack what it has acknowledged."""
    world = World()
    topic = topic_state("orders", [(1, 2, 3)])
    led = replace(topic.partitions[0], leader_epoch=LeaderEpoch(4))
    nodes = [node_state(1), node_state(2), node_state(3)]
    world.image = image_of(nodes, [replace(topic, topic_id=TOPIC, partitions=(led,))])
    full = FullReplicas(lambda: 0)
    key = (TOPIC, 0)
    full.note(NodeId(1), {TOPIC: frozenset({0})})

    def decide(image, keys):
        return leave_full_disks(image, keys, full.told, full.avoided, {})

    batches = LeaderBatches(world, world.hand_overs)  # type: ignore[arg-type]
    moving = asyncio.create_task(batches.move([key], decide, at_once=1))
    await turn()
    (asked,) = world.hand_overs.asked_of(NodeId(1))
    assert asked.successor == 2
    full.note(NodeId(2), {TOPIC: frozenset({0})})
    world.answer(1, 0)
    assert await moving == (0, {key}), "it is named, so that it is left in peace for a while"
    assert world.image.topics[TOPIC].partitions == (led,)


async def test_a_move_goes_to_the_successor_that_the_leader_was_asked_for_or_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hand_overs, "MOVE_PAUSE_S", 0.0)
    world = World()
    topic = topic_state("orders", [(2, 3, 1)])
    moving = replace(
        topic.partitions[0],
        leader=NodeId(1),
        leader_epoch=LeaderEpoch(4),
        removing_replicas=(NodeId(1),),
    )
    nodes = [node_state(1), node_state(2), node_state(3)]
    world.image = image_of(nodes, [replace(topic, topic_id=TOPIC, partitions=(moving,))])
    world.hub = WatchHub(world.image)
    running = asyncio.create_task(world.hand_overs.run())
    await turn()
    (asked,) = world.hand_overs.asked_of(NodeId(1))
    assert asked.successor == 2
    node = world.image.nodes[NodeId(2)]
    await world.commit(lambda image: change_nodes(image, [fence(node)], RULES))
    world.answer(1, 0)
    await turn()
    assert world.image.topics[TOPIC].partitions[0].leader == 1, "node 3 may lack the end of the log"
    (asked,) = world.hand_overs.asked_of(NodeId(1))
    assert asked.successor == 3
    world.answer(1, 0)
    await turn()
    running.cancel()
    assert world.image.topics[TOPIC].partitions[0].leader == 3
    assert 1 not in world.replicas
