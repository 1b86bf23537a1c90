"""An image is applied in steps, and batches that come between the steps stay in order."""

import asyncio
from dataclasses import replace

import pytest

from highwater.gateway.data_plane.follow_image import ImageFollower
from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.routing.node_links import NodeLinks
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.append import AppendGatherer
from highwater.model.cluster import ClusterDelta
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.steps import finish
from tests.support.controller_images import image_of, node_state, topic_state
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Sink

TOPICS = 300


class Link:
    """Takes batches; answers nothing unless a test closes it."""

    def __init__(self, state, owner):
        self.state = state
        self.node_id = state.node_id
        self.takes_appends = True
        self.open_segment_files = 0
        self.groups_sent = 0
        self.fetches_sent = 0
        self.closed = False
        self.gatherer = AppendGatherer(lambda flush: None, lambda groups: None, owner)
        self.append = self.gatherer.append
        self.append_group = self.gatherer.append_group

    def appends_under_way(self):
        return iter(list(self.gatherer.groups))

    def recall_appends(self, wanted):
        return self.gatherer.recall(wanted)

    def set_fenced(self, fenced):
        self.fenced = fenced

    def ending_waits(self):
        yield from ()

    async def close(self):
        self.closed = True


class Gateway:
    def __init__(self):
        self.links = NodeLinks(self.open_link, lambda name, error: None)
        self.opened = []
        self.held = HeldProduce(
            1 << 20,
            route_of=self._route_of,
            is_lost=self.links.is_lost,
            call_later=lambda delay_s, callback: None,
        )
        self.routing = RoutingTable(self.links.link_to, self.held)
        self.follower = ImageFollower(self.links, self.routing, self.held)

    def _route_of(self, topic_id, partition):
        return self.routing.route(topic_id, partition)

    def open_link(self, state):
        self.opened.append(Link(state, self.held))
        return self.opened[-1]

    def send(self, name, index):
        route = self.routing.topic(DEFAULT_INSTANCE, name).partitions[0]
        batch = make_batch()
        route.target.append(route, -1, batch, len(batch), Sink(), index, 1 << 40)


@pytest.fixture
async def gateway():
    made = Gateway()
    yield made
    await made.links.close()


def two_nodes():
    return image_of(
        [node_state(1), node_state(2)], [topic_state(f"t{n}", [(1, 2)]) for n in range(TOPICS)]
    )


def led_by_2(image):
    """The image after node 1 has died, as a delta."""
    partitions = {
        t.topic_id: (replace(t.partitions[0], leader=2, leader_epoch=6, isr=(2,)),)
        for t in image.topics.values()
    }
    return ClusterDelta(
        revision=image.revision + 1, nodes=(node_state(1, fenced=True),), partitions=partitions
    )


async def test_all_routes_follow_an_image_in_several_steps(gateway):
    image = two_nodes()
    finish(gateway.follower.following(image, None))
    delta = led_by_2(image)
    after = image.apply(delta)
    steps = sum(1 for _ in gateway.follower.following(after, delta))
    assert steps > 2
    routes = [gateway.routing.topic(DEFAULT_INSTANCE, f"t{n}").partitions[0] for n in range(TOPICS)]
    assert {(r.leader, r.leader_epoch, r.link) for r in routes} == {(2, 6, gateway.opened[1])}
    assert gateway.routing.image is after


async def test_batches_that_come_between_two_steps_are_sent_once_and_in_order(gateway):
    image = two_nodes()
    finish(gateway.follower.following(image, None))
    for n in range(TOPICS):
        gateway.send(f"t{n}", 0)
    delta = led_by_2(image)
    sent = 0
    for _ in gateway.follower.following(image.apply(delta), delta):
        sent += 1
        for n in range(TOPICS):
            gateway.send(f"t{n}", sent)
    second = gateway.opened[1]
    by_partition = {}
    while taken := second.gatherer.take():  # A new leader gets more after it has taken one group.
        for group in taken:
            by_partition.setdefault(group.topic_id, []).extend(group.indexes)
            group.complete([7] * len(group.batches))
    assert set(map(tuple, by_partition.values())) == {tuple(range(sent + 1))}
    assert len(by_partition) == TOPICS
    assert list(gateway.opened[0].gatherer.groups) == []


async def test_a_former_link_is_closed_when_no_route_uses_it(gateway):
    image = two_nodes()
    finish(gateway.follower.following(image, None))
    again = replace(node_state(1), incarnation="again")
    delta = ClusterDelta(revision=image.revision + 1, nodes=(again,))
    for _ in gateway.follower.following(image.apply(delta), delta):
        await asyncio.sleep(0)
        assert not gateway.opened[0].closed
    await asyncio.sleep(0)
    assert gateway.opened[0].closed
    links = {
        r.link
        for t in range(TOPICS)
        for r in gateway.routing.topic(DEFAULT_INSTANCE, f"t{t}").partitions
    }
    assert links == {gateway.opened[2]}
