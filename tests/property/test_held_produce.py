"""Produce over two nodes with failing links: order is kept, no batch is repeated, all are answered.

Batches carry their number. Even ones belong to an idempotent producer, whose log accepts only the
next sequence; odd ones to none. Some transactions may follow one another, whoever writes in them.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.append import AppendGatherer, Failure, TransactionalWrite
from highwater.hop.append_expiry import answer_others, any_idempotent, unknown
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from tests.support.controller_images import image_of, topic_state
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Sink

NODES = (1, 2)
WRITES = st.sampled_from(
    [
        (None,),
        (None, TransactionalWrite("a", True)),
        (TransactionalWrite("a", False), TransactionalWrite("b", True), None),
    ]
)
"""Transactions that take turns, each for four batches."""
DEADLINE_MS = 4_000

OFTEN = ["flow", "flow", "flow", "send", "leave", "arrive", "arrive", "answer", "answer"]
SELDOM = ["fence", "fence", "elect", "depose", "learn", "image", "image", "break", "pause", "tick"]
STEPS = st.lists(
    st.tuples(st.sampled_from(OFTEN + SELDOM), st.sampled_from(NODES)), min_size=20, max_size=120
)


class Node:
    """A node and its link: a gatherer, an ordered wire, and what the node knows."""

    def __init__(self, cluster, node_id):
        self.cluster = cluster
        self.node_id = node_id
        self.known_epoch = self.known_leader = -1
        self.paused = False
        self.broken = False
        self.wire = []
        """[group, its batches as sent, its epoch] on the way to the node."""
        self.answers = []
        """[group, failure] on the way to the gateway; the group is None once recalled."""
        self.gatherer = AppendGatherer(lambda flush: None, self.wire.extend, cluster.held)
        self.append = self.gatherer.append
        self.append_group = self.gatherer.append_group

    def leave(self):
        if self.broken:
            return
        for group in self.gatherer.take():
            group.attempted = True
            self.wire.append([group, list(group.batches), group.leader_epoch])

    def arrive(self):
        """The node takes the oldest group."""
        if self.paused or not self.wire:
            return
        group, batches, epoch = self.wire.pop(0)
        if group is not None:
            assert {self.cluster.write_of(batch) for batch in batches} == {group.transaction}
        if (self.known_leader, self.known_epoch) == (self.node_id, epoch):
            failure = self.cluster.write(batches, epoch)
        else:
            failure = Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=self.known_epoch)
        self.answers.append([group, failure])

    def answer(self):
        """The oldest answer arrives, unless its group was recalled."""
        if self.paused or not self.answers:
            return
        group, failure = self.answers.pop(0)
        if group is None:
            return
        if failure is None:
            group.complete([0] * len(group.batches))
        else:
            group.fail(failure)

    def sent(self):
        """Groups without an answer."""
        return [entry[0] for entry in [*self.answers, *self.wire] if entry[0] is not None]

    def break_stream(self):
        """As the stream does: groups that may be sent again go before the rest."""
        lost = [*self.answers, *self.wire]
        again = []
        for entry in lost:
            group, entry[0] = entry[0], None
            if group is not None and any_idempotent(group):
                answer_others(group, unknown("broken"))
                again.append(group)
            elif group is not None:
                group.fail(unknown("broken"))
        self.wire, self.answers = [], []
        self.gatherer._groups[:0] = again
        self.gatherer.queued_bytes += sum(group.nbytes for group in again)
        self.broken = True

    def appends_under_way(self):
        yield from self.sent()
        yield from self.gatherer.groups

    def recall_appends(self, wanted):
        recalled = [group for group in self.sent() if wanted(group)]
        for entry in [*self.answers, *self.wire]:
            if entry[0] in recalled:
                entry[0] = None
        return recalled + self.gatherer.recall(wanted)


def number_of(batch):
    return int.from_bytes(batch[-5:-1], "big")


class Cluster:
    def __init__(self, writes):
        self.writes = writes
        self.retries = []
        self.held = HeldProduce(
            1 << 20,
            route_of=self.route_by_id,
            is_lost=lambda link: link.paused or link.broken,
            call_later=lambda _pause_s, retry: self.retries.append(retry),
        )
        self.nodes = {n: Node(self, n) for n in NODES}
        self.routing = RoutingTable(self.nodes.get, self.held)
        self.sink = Sink()
        self.now_ms = 0
        self.sent = 0
        self.log = []
        self.next_sequence = 0
        self.leader, self.epoch = 1, 5
        self.topic = topic_state("a", [(1,)])
        self.image()
        for node in self.nodes.values():
            self.learn(node)
        # The route is trusted: batches are sent at once.
        for name in ("flow", "arrive", "answer"):
            self.step(name, self.nodes[1])

    def route_by_id(self, topic_id, partition):
        return self.routing.route(topic_id, partition)

    def write_of(self, batch):
        return self.writes[number_of(batch) // 4 % len(self.writes)]

    def write(self, batches, epoch):
        """Appends to the one log, which every leader has; the epoch fences."""
        if epoch != self.epoch:
            return Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=self.epoch)
        for batch in batches:
            number = number_of(batch)
            if number % 2 == 0:
                sequence = number // 2
                if sequence < self.next_sequence:
                    continue
                if sequence > self.next_sequence:
                    return Failure(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
                self.next_sequence += 1
            self.log.append(number)
        return None

    def step(self, name, node):
        getattr(self, name)(node)

    def send(self, _node):
        number = self.sent
        self.sent += 1
        value = number.to_bytes(4, "big")
        batch = (
            make_batch(value=value)
            if number % 2
            else make_batch(value=value, producer_id=1, producer_epoch=0, base_sequence=number // 2)
        )
        route = self.routing.topic(DEFAULT_INSTANCE, "a").partitions[0]
        deadline_ms = self.now_ms + DEADLINE_MS
        write = self.write_of(batch)
        route.target.append(route, 1, batch, len(batch), self.sink, number, deadline_ms, write)

    def flow(self, _node):
        self.send(_node)
        for node in self.nodes.values():
            node.leave()

    def leave(self, node):
        node.leave()

    def arrive(self, node):
        node.arrive()

    def answer(self, node):
        node.answer()

    def elect(self, node):
        self.leader, self.epoch = node.node_id, self.epoch + 1

    def depose(self, _node):
        self.leader, self.epoch = -1, self.epoch + 1

    def learn(self, node):
        node.known_leader, node.known_epoch = self.leader, self.epoch

    def image(self, _node=None):
        (state,) = self.topic.partitions
        if state.leader_epoch != self.epoch:
            state = replace(state, leader=self.leader, leader_epoch=self.epoch)
            self.topic = replace(self.topic, partitions=(state,))
        self.routing.apply(image_of(topics=[self.topic]))
        self.routing.relink()
        self.held.follow(*self.routing.take_changes())

    def break_(self, node):
        node.break_stream() if not node.broken else setattr(node, "broken", False)

    def pause(self, node):
        node.paused = not node.paused

    def fence(self, node):
        """The node hangs, and the other one becomes leader."""
        other = self.nodes[3 - node.node_id]
        node.paused, other.paused = True, False
        self.elect(other)
        self.learn(other)
        self.image()

    def tick(self, _node=None):
        retries, self.retries = self.retries, []
        for retry in retries:
            retry()
        self.now_ms += 250
        self.held.expire(self.now_ms)

    def settle(self):
        """All faults end, and enough time passes."""
        for node in self.nodes.values():
            node.broken = node.paused = False
        if self.leader < 0:
            self.elect(self.nodes[2])
        self.image()
        for _ in range(8):
            for node in self.nodes.values():
                self.learn(node)
                node.leave()
                while node.wire or node.answers:
                    node.arrive()
                    node.answer()
                    node.leave()
            self.tick()


@settings(max_examples=300, deadline=None)
@given(STEPS, WRITES)
def test_order_and_answers(steps, writes):
    cluster = Cluster(writes)
    for name, node_id in steps:
        cluster.step("break_" if name == "break" else name, cluster.nodes[node_id])
        assert len(cluster.log) == len(set(cluster.log)), "twice"
    cluster.settle()
    told = [index for index, _, _ in cluster.sink.results]
    assert sorted(told) == list(range(cluster.sent)), "each hears once"
    codes = cluster.sink.codes
    stored = {index for index, code in codes.items() if code == 0}
    refused = {i for i, code in codes.items() if code == ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert stored <= set(cluster.log), "acknowledged and lost"
    assert not refused & set(cluster.log), "in the log, and said not to be"
    assert cluster.log == sorted(cluster.log), "overtaken"
    assert (cluster.held.nbytes, cluster.held.partitions) == (0, 0)
