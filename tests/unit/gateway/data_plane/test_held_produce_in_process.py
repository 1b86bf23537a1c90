"""Produce while leaders move away from a node in the same process, with its real data plane.

The other node is played by the test. What may happen to a group there is what may happen over gRPC:
nothing is answered twice, nothing overtakes, and what may be in the log is not sent elsewhere unless a
log recognises it.
"""

from dataclasses import replace

import pytest

from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.append import AppendGatherer
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.edge.local_link import LocalLink
from highwater.partition.edge.member_link import LocalMemberLink
from highwater.partition.node.log_dirs import LogDirRequests
from highwater.partition.node.loggers import LoggerQueries
from highwater.runtime.logging import silent_logger
from tests.support.controller_images import image_of, topic_state
from tests.support.log_batches import make_batch
from tests.support.still_replicas import StillReplicas
from tests.unit.hop.sinks import Sink
from tests.unit.partition.data_plane.node import Node, stored
from tests.unit.partition.data_plane.roles import follow, follower_fetched, image_says

HERE, OTHER = 1, 2
EPOCH = 5
"""The leader epoch of `topic_state`."""
ALL = -1
TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT


class OtherLink:
    """Keeps groups; the test answers them in order."""

    def __init__(self, owner):
        self.node_id = OTHER
        self.wire = []
        gatherer = AppendGatherer(lambda flush: flush(), self._take, owner)
        self.append, self.append_group = gatherer.append, gatherer.append_group

    def _take(self, groups):
        for group in groups:
            group.attempted = True
        self.wire += groups

    def appends_under_way(self):
        yield from self.wire

    def recall_appends(self, wanted):
        return []

    def answer(self):
        group = self.wire.pop(0)
        group.complete([100 + n for n in range(len(group.batches))])
        return group


class Coordinator:
    def submit(self, call):
        raise AssertionError

    cancel = submit


class World:
    def __init__(self, tmp_path):
        self.due = []
        self.later = []
        self.lost = False
        self.held = HeldProduce(
            1 << 20,
            route_of=self._route_of,
            is_lost=lambda link: link is self.link and self.lost,
            call_later=lambda _pause_s, callback: self.later.append(callback),
        )
        self.node = Node(tmp_path)
        self.topic = topic_state("a", [(HERE, OTHER)])
        self.replica = self.node.add(topic_id=self.topic.topic_id)
        image_says(self.replica, leader=HERE, epoch=EPOCH, replicas=(HERE, OTHER), min_isr=1)
        local = LocalLink(
            HERE,
            plane=self.node.plane,
            queries=OffsetQueries(self.node.plane, self.node._log_failed),
            log_dirs=LogDirRequests(
                [],
                replicas=lambda _: (),
                is_online=lambda _: True,
                find=lambda _: None,
                prefer=lambda *_: None,
                moves=StillReplicas(),
            ),
            loggers=LoggerQueries(silent_logger()),
            coordinator=Coordinator(),
            schedule=self.due.append,
        )
        self.link = LocalMemberLink(
            local,
            plane=self.node.plane,
            coordinator=Coordinator(),
            schedule=self.due.append,
            append_owner=self.held,
        )
        self.other = OtherLink(self.held)
        links = {HERE: self.link, OTHER: self.other}
        self.routing = RoutingTable(links.get, self.held)
        self.sink = Sink()
        self.count = 0
        self.image()

    def _route_of(self, topic_id, partition):
        return self.routing.route(topic_id, partition)

    def image(self):
        self.routing.apply(image_of(topics=[self.topic]))
        self.held.follow(*self.routing.take_changes())

    def gateway_hears(self, leader):
        """The gateway's image names another leader, in the next epoch."""
        (state,) = self.topic.partitions
        state = replace(state, leader=leader, leader_epoch=state.leader_epoch + 1)
        self.topic = replace(self.topic, partitions=(state,))
        self.image()

    def node_hears(self):
        """The node's image says that the other one leads, in the next epoch."""
        follow(self.replica, OTHER, EPOCH + 1)

    def turn(self):
        while self.due:
            self.due.pop(0)()

    def send(self, batch=None, acks=1):
        batch = batch or make_batch()
        (route,) = self.routing.topic(DEFAULT_INSTANCE, "a").partitions
        route.target.append(route, acks, batch, len(batch), self.sink, self.count, 10_000)
        self.count += 1

    def settled(self):
        """Make the partition an ordinary one, without a hold."""
        self.send()
        self.turn()
        assert self.sink.codes == {0: 0}
        assert self.held.partitions == 0
        return self

    @property
    def indexes(self):
        """Of the batches that wait at the other node, by group."""
        return [group.indexes for group in self.other.wire]


@pytest.fixture
def w(tmp_path):
    return World(tmp_path).settled()


def idempotent(sequence):
    return make_batch(producer_id=1, producer_epoch=0, base_sequence=sequence)


def test_batches_go_straight_to_the_log_of_this_process(w):
    for acks in (0, 1):
        w.send(acks=acks)
    w.turn()
    assert w.sink.codes == {0: 0, 1: 0, 2: 0}
    w.send(acks=ALL)
    w.turn()
    assert 3 not in w.sink.codes, "it waits for the follower"
    follower_fetched(w.replica, OTHER, 4)
    assert w.sink.offsets == {0: 0, 1: 1, 2: 2, 3: 3}
    assert w.held.partitions == 0


def test_what_the_node_refuses_waits_for_the_next_leader_in_order(w):
    w.node_hears()
    w.send()
    w.send()
    w.turn()
    w.send()
    w.turn()
    assert w.sink.codes == {0: 0}, "nobody is told"
    assert w.held.partitions == 1
    w.gateway_hears(OTHER)
    assert w.indexes == [[1, 2]], "alone, as a probe"
    w.other.answer()
    w.turn()
    assert w.indexes == [[3]]
    w.other.answer()
    assert w.sink.codes == {0: 0, 1: 0, 2: 0, 3: 0}
    assert len(stored(w.replica)) == len(make_batch()), "only the first one is here"
    w.send()
    assert w.indexes == [[4]], "an ordinary partition again"
    assert w.held.partitions == 0


def test_a_gateway_that_hears_first_waits_for_what_its_node_has(w):
    w.send(idempotent(0), acks=ALL)
    w.turn()
    w.send()
    w.gateway_hears(OTHER)
    w.turn()
    # The second was still gathered, and the node has taken it in the old epoch.
    assert w.sink.codes == {0: 0, 2: 0}
    w.send()
    w.turn()
    assert w.indexes == [], "nothing overtakes the first"
    w.node_hears()
    w.turn()
    assert w.indexes == [[1]], "in doubt, but the next log knows if it has it"
    w.other.answer()
    assert w.indexes == [[3]]
    w.other.answer()
    assert w.sink.codes == {0: 0, 1: 0, 2: 0, 3: 0}
    assert [index for index, _, _ in w.sink.results] == [0, 2, 1, 3]


def test_what_is_not_committed_is_in_doubt_unless_a_log_can_tell(w):
    w.send(make_batch(), acks=ALL)
    w.turn()
    w.send(idempotent(0), acks=ALL)
    w.turn()
    w.node_hears()
    assert w.sink.codes == {0: 0, 1: TIMED_OUT}, "it may be in the next leader's log, or not"
    w.gateway_hears(OTHER)
    assert w.indexes == [[2]]
    assert w.other.wire[0].doubtful
    w.other.answer()
    assert w.sink.codes == {0: 0, 1: TIMED_OUT, 2: 0}


def test_what_a_fenced_node_keeps_goes_to_the_next_leader_and_its_answer_is_dropped(w):
    w.send(idempotent(0), acks=ALL)
    w.turn()
    w.send(make_batch(), acks=ALL)
    w.turn()
    w.lost = True
    w.gateway_hears(OTHER)
    assert w.sink.codes == {0: 0, 2: TIMED_OUT}
    assert w.indexes == [[1]]
    # The node replicates it after all: its image is older than the gateway's.
    follower_fetched(w.replica, OTHER, 3)
    assert 1 not in w.sink.codes
    w.other.answer()
    assert w.sink.codes == {0: 0, 1: 0, 2: TIMED_OUT}
    assert w.sink.offsets[1] == 100
    assert len(w.sink.results) == 3


def test_a_leader_that_hands_over_refuses_and_nothing_is_in_doubt(w):
    w.send(acks=ALL)
    w.turn()
    assert w.replica.resign()
    w.send(acks=ALL)
    w.turn()
    assert w.sink.codes == {0: 0}, "one waits for its follower, one for the next leader"
    follower_fetched(w.replica, OTHER, 2)
    w.replica.answers.go_on()
    w.turn()
    assert w.sink.codes == {0: 0, 1: 0}
    w.node_hears()
    w.gateway_hears(OTHER)
    w.turn()
    assert w.indexes == [[2]]
    w.other.answer()
    assert w.sink.codes == {0: 0, 1: 0, 2: 0}


def test_the_end_answers_everything_once(w):
    w.send(acks=ALL)
    w.turn()
    w.node_hears()
    w.send()
    w.turn()
    w.held.close()
    assert w.sink.codes == {0: 0, 1: TIMED_OUT, 2: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert len(w.sink.results) == 3
