"""Which instances may call, and of which a shard's keys go, by the images that a node has seen."""

from types import SimpleNamespace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.partition.coordinator.core.forgetting import KEYS_PER_SLICE, Forgetting
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.coordinator.instance_purge import RETRY_S, SLICE_PAUSE_S, InstancePurge
from highwater.partition.groups.key import GroupKey
from highwater.runtime.logging import silent_logger

RED, BLUE, SYSTEM = InstanceId("red"), InstanceId("blue"), InstanceId("_system")


class Shard:
    def __init__(self, **counts: int) -> None:
        self.keys = {
            GroupKey(InstanceId(who), str(number)): None
            for who, count in counts.items()
            for number in range(count)
        }
        self.forgetting = Forgetting(keys=lambda: self.keys, forget=self.forget, written=lambda: 0)

    def forget(self, key: GroupKey, _now: Moment) -> bool:
        del self.keys[key]
        return True

    @property
    def instances(self) -> set[str]:
        return {key.instance for key in self.keys}


class Node:
    """Its hosts, and timers that the test runs."""

    def __init__(self, *shards: Shard) -> None:
        self.by_partition = {}
        self.refuses = False
        self.later = []
        self.logger = silent_logger()
        self.purge = InstancePurge(
            self,
            forgetting_of=lambda shard: shard.forgetting,
            call_later=lambda pause_s, turn: self.later.append((pause_s, turn)),
        )
        for number, shard in enumerate(shards):
            self.by_partition[number] = SimpleNamespace(partition=number, shard=shard)

    def shards(self):
        return [h.shard for h in self.by_partition.values() if isinstance(h.shard, Shard)]

    def event(self, what):
        return f"test_{what}"

    def decide(self, partition, shard, _name, decide):
        assert self.by_partition[partition].shard is shard
        if not self.refuses:
            decide(shard, Moment(0, 0))
        return not self.refuses

    def image(self, *instances, removed=()):
        """An image whose roles the node takes at once."""
        self.purge.follow(instances, frozenset(removed))
        self.purge.applied()

    def turn(self) -> float:
        """Runs the one timer; its pause."""
        ((pause_s, turn),) = self.later
        self.later.clear()
        turn()
        return pause_s


def test_all_are_admitted_until_the_first_image():
    assert Node().purge.admits(RED)


def test_instances_are_admitted_while_they_are_in_the_applied_image():
    node = Node()
    node.image(RED)
    assert node.purge.admits(RED)
    assert not node.purge.admits(BLUE)
    assert node.purge.admits(SYSTEM), "the cluster's own need not be in images"
    node.purge.follow([RED, BLUE], frozenset())
    assert not node.purge.admits(BLUE), "the node may lead by an older image still"
    node.purge.applied()
    assert node.purge.admits(BLUE)
    node.purge.follow([BLUE], frozenset())
    assert not node.purge.admits(RED), "gone at once"
    assert node.purge.admits(BLUE)


def test_what_a_purged_instance_has_goes_from_all_shards():
    node = Node(Shard(red=2, blue=1), Shard(red=1))
    node.image(RED, BLUE)
    assert not node.later
    node.image(BLUE)
    assert node.turn() == 0
    assert [shard.instances for shard in node.shards()] == [{"blue"}, set()]
    assert not node.later, "nothing is left to do"


def test_an_instance_that_was_never_in_an_image_is_not_touched():
    """It may be newer than the image: the leader before has seen another one."""
    node = Node(Shard(red=1))
    node.image(BLUE)
    node.image(BLUE, InstanceId("green"))
    assert not node.later
    assert node.shards()[0].instances == {"red"}


def test_a_shard_that_was_loaded_is_compared_with_the_newest_image():
    node = Node(Shard(red=1, blue=1, _system=1))
    (shard,) = node.shards()
    node.purge.activated(shard)
    assert not node.later, "no image is known"
    node.image(BLUE)
    node.purge.activated(shard)
    node.turn()
    assert shard.instances == {"blue", "_system"}
    node.purge.activated(shard)
    assert not node.later


def test_an_instance_that_is_purged_and_made_anew_between_two_images():
    node = Node(Shard(red=1))
    node.image(RED)
    assert node.purge.admits(RED)
    node.purge.follow([RED], frozenset({RED}))
    assert not node.purge.admits(RED)
    node.turn()
    assert not node.purge.admits(RED), "its roles are not taken yet"
    node.purge.applied()
    assert node.purge.admits(RED)


def test_a_new_instance_waits_until_nothing_is_left_of_the_former_one():
    node = Node(Shard(red=KEYS_PER_SLICE + 1))
    node.image(RED)
    node.image()
    node.image(RED)
    assert not node.purge.admits(RED)
    assert node.turn() == 0
    assert not node.purge.admits(RED)
    assert node.turn() == SLICE_PAUSE_S
    assert node.purge.admits(RED)
    assert node.shards()[0].instances == set()


def test_without_progress_it_waits_longer():
    node = Node(Shard(red=1))
    node.image(RED)
    node.refuses = True
    node.image()
    node.turn()
    assert node.turn() == RETRY_S
    node.refuses = False
    assert node.turn() == RETRY_S
    assert not node.later
    assert node.shards()[0].instances == set()


@pytest.mark.parametrize("gone", [True, False])
def test_shards_that_are_not_there(gone):
    """A shard that is loading is compared when it is there; one that has left is none of ours."""
    node = Node(Shard(red=1))
    node.image(RED)
    node.image()
    if gone:
        node.by_partition.clear()
    else:
        node.by_partition[0].shard = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.turn()
    assert not node.later
