"""Produce with acks=all while leaders fail over: idempotent producers get no errors.

Two nodes have logs and producer states. A leader answers when its records are committed; the next
one has every committed record and some of the rest. Nodes learn of leaderships late, links break,
nodes hang. With distant deadlines no error is allowed. With near ones, NOT_LEADER_OR_FOLLOWER
means, as clients understand it, that no log ever had the batch.

Batches carry their number. Two of three belong to idempotent producers, which have at most five in
flight, as a client has; the third belongs to none and must never be appended twice. After an error
a producer continues as a new one.
"""

from collections import Counter
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from highwater.gateway.clients.append_stream import goes_again
from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.append import AppendGatherer, Failure
from highwater.hop.append_expiry import AppendExpiry, unknown
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import BATCH_HEADER
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.core.producers import ACCEPT, ProducerStates
from tests.support.controller_images import image_of, topic_state
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Sink

NODES = (1, 2)
IN_FLIGHT_MAX = 5
FAR_MS = 1 << 40
NEAR_MS = 1_250
"""Five checks; a held batch expires before the last two."""

OFTEN = ["flow", "burst", "burst", "leave", "arrive", "arrive", "commit", "answer", "answer"]
SELDOM = ["fence", "elect", "elect", "depose", "learn", "learn", "image", "break", "pause", "tick"]
STEPS = st.lists(
    st.tuples(st.sampled_from(OFTEN + SELDOM), st.sampled_from(NODES), st.integers(0, 3)),
    min_size=20,
    max_size=120,
)

NEAR_OFTEN = ["flow", "burst", "arrive", "reach", "commit", "reset", "restart", "wait"]
NEAR_SELDOM = ["break", "elect", "fence", "depose", "learn", "image", "pause", "tick"]
NEAR_STEPS = st.lists(
    st.tuples(
        st.sampled_from(NEAR_OFTEN * 2 + NEAR_SELDOM),
        st.sampled_from((1, 1, 1, 2)),
        st.integers(0, 3),
    ),
    min_size=40,
    max_size=80,
)
"""Streams break and time passes more often; few batches are in flight."""


def number_of(batch):
    return int.from_bytes(batch[-5:-1], "big")


def producer_of(batch):
    """(producer id, sequence); the id is -1 without a producer."""
    header = BATCH_HEADER.unpack_from(batch)
    return header[9], header[11]


class Log:
    """Batches, and the producer state of a replica."""

    def __init__(self, batches):
        self.batches = []
        self.producers = ProducerStates()
        for batch in batches:
            assert self.append(batch) == ACCEPT, "a log that a leader could not have written"

    @property
    def numbers(self):
        return [number_of(batch) for batch in self.batches]

    def append(self, batch):
        """ACCEPT if the batch is new and next; else the verdict of `check`."""
        producer, sequence = producer_of(batch)
        if producer >= 0:
            verdict = self.producers.append(producer, 0, sequence, 0, len(self.batches), 0)
            if verdict != ACCEPT:
                return verdict
        self.batches.append(batch)
        return ACCEPT


class Node:
    """A node and the link to it. Entries are [group, ...]; the group is None once recalled."""

    def __init__(self, cluster, node_id):
        self.cluster = cluster
        self.node_id = node_id
        self.known = (-1, -1)
        """Leader and epoch as the node knows them."""
        self.log = Log([])
        self.paused = self.broken = False
        self.wire = []
        """[group, batches as sent, epoch] on the way to the node."""
        self.uncommitted = []
        """[group, end offset, failures by index] of groups that wait for the high watermark."""
        self.high_watermark = 0
        self.answers = []
        """[group, failures by index] on the way to the gateway."""
        self.gatherer = AppendGatherer(lambda flush: None, self.wire.extend, cluster.held)
        self.append = self.gatherer.append
        self.append_group = self.gatherer.append_group

    @property
    def leads(self):
        return self.known[0] == self.node_id

    def leave(self):
        if self.broken:
            return
        for group in self.gatherer.take():
            group.attempted = True
            self.wire.append([group, list(group.batches), group.leader_epoch])

    def arrive(self):
        if self.paused or not self.wire:
            return
        group, batches, epoch = self.wire.pop(0)
        if not self.leads or epoch != self.known[1]:
            refusal = Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=self.known[1])
            self.answers.append([group, dict.fromkeys(range(len(batches)), refusal)])
            return
        failures = {}
        for place, batch in enumerate(batches):
            verdict = self.log.append(batch)
            if verdict < ACCEPT:
                assert self.cluster.near, "the gateway lost or overtook a batch"
                failures[place] = Failure(-verdict)
            else:
                self.cluster.stored.add(number_of(batch))
        self.uncommitted.append([group, len(self.log.batches), failures])
        self.committed(self.high_watermark)  # It may have been in the log before.

    def committed(self, high_watermark):
        self.high_watermark = high_watermark
        while self.uncommitted and self.uncommitted[0][1] <= high_watermark:
            group, _, failures = self.uncommitted.pop(0)
            self.answers.append([group, failures])

    def stop_leading(self):
        failure = unknown("the leader changed before the commit")
        for group, _, failures in self.uncommitted:
            places = range(len(group.batches)) if group is not None else ()
            self.answers.append([group, dict.fromkeys(places, failure) | failures])
        self.uncommitted = []

    def answer(self):
        if self.paused or not self.answers:
            return
        group, failures = self.answers.pop(0)
        if group is not None:
            offsets = [-1 if n in failures else 0 for n in range(len(group.batches))]
            group.complete(offsets, failures or None)

    def expire(self, now_ms):
        """As the stream of a link does."""
        expiry = AppendExpiry(now_ms, "late")
        for entry in self.entries:
            if entry[0] is not None:
                expiry.answer_sent(entry[0])
        self.gatherer.prune(expiry.take_unsent)
        expiry.tell()

    @property
    def entries(self):
        return [*self.answers, *self.uncommitted, *self.wire]

    def break_stream(self):
        again = []
        for entry in self.entries:
            group, entry[0] = entry[0], None
            if group is not None and goes_again(group, "broken", unread=False):
                again.append(group)
        self.wire, self.answers = [], []
        self.gatherer._groups[:0] = again
        self.gatherer.queued_bytes += sum(group.nbytes for group in again)
        self.broken = True

    def appends_under_way(self):
        yield from [entry[0] for entry in self.entries if entry[0] is not None]
        yield from self.gatherer.groups

    def recall_appends(self, wanted):
        recalled = []
        for entry in self.entries:
            if entry[0] is not None and wanted(entry[0]):
                recalled.append(entry[0])
                entry[0] = None
        return recalled + self.gatherer.recall(wanted)


class Cluster:
    def __init__(self, *, near=False):
        self.near = near
        self.stored = set()
        """Numbers of batches that any leader's log ever had."""
        self.identity = {0: (10, 0), 1: (11, 0)}
        """Producer id and next sequence of the idempotent producers."""
        self.failed = set()
        """Numbers of failed batches that their producers know of."""
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
        self.sent = 0
        self.now_ms = 0
        self.last = 1
        """The last leader, since `last_epoch`; the next one continues its log."""
        self.leader, self.epoch = 1, 5
        self.last_epoch = 5
        self.high_watermark = 0
        self.topic = topic_state("a", [(1, 2)])
        self.image()
        for node in self.nodes.values():
            self.learn(node)
        # The route is trusted: batches are sent at once.
        for step in (self.flow, self.arrive, self.commit, self.answer):
            step(self.nodes[1])

    def route_by_id(self, topic_id, partition):
        return self.routing.route(topic_id, partition)

    # ---- steps ----

    def send(self, *_):
        number = self.sent
        open_batches = Counter(n % 3 for n in range(number) if n not in self.sink.codes)
        if number % 3 < 2 and open_batches[number % 3] >= IN_FLIGHT_MAX:
            return
        self.sent += 1
        batch = self.batch_of(number)
        route = self.routing.topic(DEFAULT_INSTANCE, "a").partitions[0]
        deadline_ms = self.now_ms + NEAR_MS if self.near else FAR_MS
        route.target.append(route, -1, batch, len(batch), self.sink, number, deadline_ms)

    def batch_of(self, number):
        """Producers 0 and 1 are idempotent, each with its own sequences; 2 is not."""
        value = number.to_bytes(4, "big")
        producer = number % 3
        if producer == 2:
            return make_batch(value=value)
        failed = {n for n, code in self.sink.codes.items() if code and n % 3 == producer}
        producer_id, sequence = self.identity[producer]
        if failed - self.failed:
            self.failed |= failed
            producer_id, sequence = producer_id + 2, 0
        self.identity[producer] = producer_id, sequence + 1
        return make_batch(
            value=value, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )

    def flow(self, *_):
        self.send()
        for node in self.nodes.values():
            node.leave()

    def burst(self, *_):
        """One group with batches of several producers."""
        for _ in range(4):
            self.send()
        for node in self.nodes.values():
            node.leave()

    def leave(self, node, _=0):
        node.leave()

    def arrive(self, node, _=0):
        node.arrive()

    def answer(self, node, _=0):
        node.answer()

    def commit(self, *_):
        """The follower has everything; only the present epoch's leader can commit."""
        if self.leader < 0:
            return
        leader = self.nodes[self.leader]
        if leader.known == (self.leader, self.epoch) and not leader.paused:
            self.high_watermark = len(leader.log.batches)
            leader.committed(self.high_watermark)

    def elect(self, node, extra=0):
        """The new leader has every committed batch, and `extra` of the former leader's others."""
        self.epoch += 1
        if node.node_id != self.last:
            # It followed the last leader, so it knows of that leader.
            node.stop_leading()
            node.known = max(node.known, (self.last, self.last_epoch), key=lambda known: known[1])
            batches = self.nodes[self.last].log.batches
            node.log = Log(batches[: self.high_watermark + extra])
        self.leader = self.last = node.node_id
        self.last_epoch = self.epoch

    def depose(self, *_):
        self.leader, self.epoch = -1, self.epoch + 1

    def learn(self, node, _=0):
        if node.known[1] < self.epoch:
            node.stop_leading()
            node.known = (self.leader, self.epoch)

    def image(self, *_):
        (state,) = self.topic.partitions
        if state.leader_epoch != self.epoch:
            state = replace(state, leader=self.leader, leader_epoch=self.epoch)
            self.topic = replace(self.topic, partitions=(state,))
        self.routing.apply(image_of(topics=[self.topic]))
        self.routing.relink()
        self.held.follow(*self.routing.take_changes())

    def break_(self, node, _=0):
        node.break_stream() if not node.broken else setattr(node, "broken", False)

    def reach(self, node, _=0):
        """Everything on the wire arrives and is answered, if possible."""
        for _ in range(len(node.wire)):
            node.arrive()
        for _ in range(len(node.answers)):
            node.answer()

    def reset(self, node, _=0):
        """The stream breaks and is opened again at once."""
        node.break_stream()
        node.broken = False
        node.leave()

    def restart(self, node, _=0):
        """The process ends; a new one has its log and knows nothing yet."""
        self.reset(node)
        node.known = (-1, -1)

    def wait(self, *_):
        for _ in range(3):
            self.tick()

    def pause(self, node, _=0):
        node.paused = not node.paused

    def fence(self, node, extra=0):
        """The node hangs, and the other one becomes leader."""
        other = self.nodes[3 - node.node_id]
        node.paused, other.paused = True, False
        self.elect(other, extra)
        self.learn(other)
        self.image()

    def tick(self, *_):
        retries, self.retries = self.retries, []
        for retry in retries:
            retry()
        self.now_ms += 250
        for node in self.nodes.values():
            node.expire(self.now_ms)
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
                while node.wire or node.answers or node.uncommitted:
                    node.arrive()
                    self.commit()
                    node.answer()
                    node.leave()
            self.tick()


def run(cluster, steps):
    """Runs the steps, ends all faults, and checks what must always hold."""
    for name, node_id, extra in steps:
        step = getattr(cluster, "break_" if name == "break" else name)
        step(cluster.nodes[node_id], extra)
    cluster.settle()
    told = [index for index, _, _ in cluster.sink.results]
    assert sorted(told) == list(range(cluster.sent)), "each hears once"
    log = cluster.nodes[cluster.last].log.numbers
    assert len(log) == len(set(log)), "twice"
    assert {n for n, code in cluster.sink.codes.items() if code == 0} <= set(log), "lost"
    assert (cluster.held.nbytes, cluster.held.partitions) == (0, 0)
    return log


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_idempotent_producers_notice_nothing(steps):
    cluster = Cluster()
    log = run(cluster, steps)
    codes = cluster.sink.codes
    others = {code for number, code in codes.items() if number % 3 == 2}
    assert {code for number, code in codes.items() if number % 3 < 2} <= {0}, "an error for nothing"
    assert others <= {0, ErrorCode.REQUEST_TIMED_OUT}
    for producer in (0, 1):
        mine = [number for number in log if number % 3 == producer]
        assert mine == list(range(producer, cluster.sent, 3)), "overtaken"


@settings(max_examples=300, deadline=None)
@given(NEAR_STEPS)
@example([(step, 1, 0) for step in ("burst", "arrive", "restart", "reach", "wait", "wait")])
def test_batches_reported_as_not_appended_are_in_no_log(steps):
    cluster = Cluster(near=True)
    run(cluster, steps)
    refused = {
        number
        for number, code in cluster.sink.codes.items()
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    }
    assert not refused & cluster.stored, "an application may send it anew"
