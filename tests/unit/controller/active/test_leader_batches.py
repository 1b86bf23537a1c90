"""Leaders move a few at a time, and those whose successors lag are named."""

from dataclasses import replace

from highwater.controller.active import leader_batches
from highwater.controller.active.leader_batches import LeaderBatches
from highwater.controller.core.balance_leaders import balance
from highwater.controller.core.partition_index import index_of
from highwater.model.ids import NodeId
from tests.support.controller_images import image_with, topic_state

TOPIC = topic_state("t", [(1, 2)] * 7)
AWAY = replace(TOPIC, partitions=tuple(replace(p, leader=NodeId(2)) for p in TOPIC.partitions))
KEYS = [(TOPIC.topic_id, number) for number in range(7)]


class World:
    """A writer that commits at once, and leaders that hand over at once, except those that lag."""

    def __init__(self):
        self.image = image_with(2, topics=[AWAY])
        self.index = index_of(self.image)
        self.lagging = frozenset()
        self.asked = []

    async def commit(self, decide):
        decision = decide(self.image)
        if decision.delta is not None:
            self.image = self.image.apply(replace(decision.delta, revision=self.image.revision + 1))
            self.index = index_of(self.image)
        return decision.result, self.image.revision

    async def carry_out(self, moves, elect, timeout_s=0.0):
        keys = frozenset(move.key for move in moves)
        self.asked.append(len(keys))
        await elect(keys - self.lagging)
        return keys & self.lagging

    def leaders(self):
        return [p.leader for p in self.image.topics[TOPIC.topic_id].partitions]


def decide(image, keys):
    return balance(image, keys, {})


async def test_batches_and_a_limit(monkeypatch):
    monkeypatch.setattr(leader_batches, "BATCH_PAUSE_S", 0)
    monkeypatch.setattr(leader_batches, "ELECTIONS_MAX", 5)
    w = World()
    assert await LeaderBatches(w, w).move(KEYS, decide, at_once=2) == (5, frozenset())
    assert w.asked == [2, 2, 1]
    assert w.leaders() == [1] * 5 + [2] * 2


async def test_those_that_lag_are_named_and_the_others_move():
    w = World()
    w.lagging = frozenset(KEYS[2:4])
    assert await LeaderBatches(w, w).move(KEYS, decide, at_once=50) == (5, w.lagging)
    assert w.leaders() == [1, 1, 2, 2, 1, 1, 1]
