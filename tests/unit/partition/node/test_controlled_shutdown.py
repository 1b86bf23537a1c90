"""The first part of a stop: what others can lead is handed over, once, and only if there are others."""

from dataclasses import replace

import pytest

from highwater.partition.config import PartitionConfig
from highwater.partition.node.controlled_shutdown import ControlledShutdown
from highwater.runtime.logging import silent_logger
from tests.support.controller_images import image_of, node_state
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import image_says


class Membership:
    """Node 1. The controller agrees at once."""

    node_id = 1

    def __init__(self):
        self.drained = []

    async def drain(self, timeout_s):
        self.drained.append(timeout_s)
        return True


class Watch:
    image = None


class Asked:
    stopped = 0

    def stop(self):
        self.stopped += 1


class World:
    def __init__(self, directory):
        self.node = Node(directory)
        self.replica = self.node.add()
        image_says(self.replica, leader=1, epoch=EPOCH, replicas=(1, 2))
        self.membership, self.watch, self.asked = Membership(), Watch(), Asked()
        self.shutdown = self.make(lambda: self.membership)

    def make(self, membership):
        return ControlledShutdown(
            membership=membership,
            replicas=lambda: [self.replica],
            watch=self.watch,
            asked_hand_overs=self.asked,
            config=PartitionConfig(drain_s=0.4, drain_catch_up_s=0.1),
            log=silent_logger(),
        )


@pytest.fixture
def w(tmp_path):
    return World(tmp_path)


async def test_the_node_resigns_and_asks_the_controller_once(w):
    w.watch.image = image_of([node_state(1), node_state(2)])
    assert w.node.append(make_batch()).codes == {0: 0}
    await w.shutdown.run()
    assert w.replica.resigned
    (timeout_s,) = w.membership.drained
    assert 0.1 <= timeout_s < 0.4, "what the follower, which never came, has left of the time"
    await w.shutdown.run()
    assert (len(w.membership.drained), w.asked.stopped) == (1, 1)


@pytest.mark.parametrize(
    "others",
    [[], [node_state(2, fenced=True)], [replace(node_state(2), draining=True)]],
    ids=["alone", "fenced", "draining"],
)
async def test_without_others_that_could_lead_it_goes_on_leading(w, others):
    w.watch.image = image_of([node_state(1), *others])
    await w.shutdown.run()
    assert not w.replica.resigned
    assert w.membership.drained == []
    assert w.asked.stopped == 1


async def test_a_node_that_has_not_joined_has_nothing_to_hand_over(w):
    w.watch.image = image_of([node_state(1), node_state(2)])
    await w.make(lambda: None).run()
    assert not w.replica.resigned
    await w.shutdown.run()
    assert w.replica.resigned
