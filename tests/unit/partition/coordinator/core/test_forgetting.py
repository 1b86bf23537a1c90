"""What a shard still has of purged instances, slice by slice."""

from typing import NamedTuple

from highwater.model.ids import InstanceId
from highwater.partition.coordinator.core.forgetting import (
    KEYS_PER_SLICE,
    RECORDS_PER_SLICE,
    Forgetting,
)
from highwater.partition.coordinator.core.values import Moment

RED, BLUE = InstanceId("red"), InstanceId("blue")
NOW = Moment(1, 2)


class Key(NamedTuple):
    instance: InstanceId
    number: int


class Shard:
    def __init__(self, *counts: tuple[InstanceId, int]) -> None:
        self.keys = {Key(who, number): None for who, count in counts for number in range(count)}
        self.refused: set[Key] = set()
        self.per_key = 1
        self.records = 0
        self.forgetting = Forgetting(
            keys=lambda: self.keys, forget=self.forget, written=lambda: self.records
        )

    def forget(self, key: Key, now: Moment) -> bool:
        assert now == NOW
        if key in self.refused:
            return False
        del self.keys[key]
        self.records += self.per_key
        return True

    def step(self) -> int:
        """One slice; how many keys are left of it."""
        self.records = 0
        self.forgetting.step(NOW)
        return len(self.forgetting)

    def count(self, instance: InstanceId) -> int:
        return sum(key.instance == instance for key in self.keys)


def test_only_keys_of_purged_instances_go():
    shard = Shard((RED, 3), (BLUE, 2))
    assert shard.forgetting.instances() == {RED, BLUE}
    shard.forgetting.begin({RED})
    assert RED in shard.forgetting
    assert BLUE not in shard.forgetting
    assert shard.count(RED) == 3, "nothing goes before the first slice"
    assert shard.step() == 0
    assert RED not in shard.forgetting
    assert (shard.count(RED), shard.count(BLUE)) == (0, 2)
    assert shard.step() == 0


def test_an_instance_without_keys_is_forgotten_at_once():
    shard = Shard((RED, 1))
    shard.forgetting.begin({BLUE})
    assert BLUE not in shard.forgetting
    assert not len(shard.forgetting)


def test_slices_are_bounded_by_keys():
    shard = Shard((RED, 2 * KEYS_PER_SLICE + 1))
    shard.forgetting.begin({RED})
    assert [shard.step() for _ in range(3)] == [KEYS_PER_SLICE + 1, 1, 0]


def test_slices_are_bounded_by_records():
    shard = Shard((RED, 4))
    shard.per_key = RECORDS_PER_SLICE // 2
    shard.forgetting.begin({RED})
    assert [shard.step(), shard.step()] == [2, 0]


def test_what_was_refused_is_tried_again_behind_the_others():
    shard = Shard((RED, 3))
    first = Key(RED, 0)
    shard.refused = {first}
    shard.forgetting.begin({RED})
    assert shard.step() == 1
    assert list(shard.keys) == [first]
    assert shard.step() == 1, "each key once in a slice"
    assert RED in shard.forgetting
    shard.refused.clear()
    assert shard.step() == 0
    assert RED not in shard.forgetting


def test_another_instance_may_follow_before_the_end():
    shard = Shard((RED, KEYS_PER_SLICE + 1), (BLUE, 1))
    shard.forgetting.begin({RED})
    shard.step()
    shard.forgetting.begin({BLUE})
    assert RED in shard.forgetting
    assert BLUE in shard.forgetting
    assert shard.step() == 0
    assert not shard.keys
