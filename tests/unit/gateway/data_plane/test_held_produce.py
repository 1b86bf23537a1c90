"""Produce while leaders move: real routes and gatherers, and nodes that the tests play."""

from dataclasses import replace

import pytest

from highwater.gateway.data_plane.held_produce import ANSWER_EARLY_MS, RETRY_S, HeldProduce
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.append import (
    OUTCOME_APPENDED,
    OUTCOME_NOT_APPENDED,
    AppendGatherer,
    Failure,
)
from highwater.hop.append_expiry import not_sent, unknown
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from tests.support.controller_images import image_of, topic_state
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Sink

NOT_LEADER, TIMED_OUT = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
EPOCH = 5
"""The leader epoch of `topic_state`."""


class Link:
    """Groups leave when the test calls `leave`, and stay on the wire until `answer`."""

    def __init__(self, node_id, owner):
        self.node_id = node_id
        self.wire = []
        self.lost = False
        gatherer = AppendGatherer(lambda flush: None, self.wire.extend, owner)
        self.gatherer = gatherer
        self.append = gatherer.append
        self.append_group = gatherer.append_group

    def leave(self):
        """Put gathered groups on the wire."""
        taken = self.gatherer.take()
        for group in taken:
            group.attempted = True
        self.wire += taken

    def answer(self, failure=None):
        """Give the oldest group its result."""
        group = self.wire.pop(0)
        if failure is None:
            group.complete([100 + n for n in range(len(group.batches))])
        else:
            group.fail(failure)
        return group

    @property
    def indexes(self):
        """Indexes of groups on the wire, and of those still gathered."""
        return [group.indexes for group in [*self.wire, *self.gatherer.groups]]

    def appends_under_way(self):
        yield from [*self.wire, *self.gatherer.groups]

    def recall_appends(self, wanted):
        recalled = [group for group in self.wire if wanted(group)]
        self.wire[:] = [group for group in self.wire if not wanted(group)]
        return recalled + self.gatherer.recall(wanted)


class World:
    def __init__(self, bytes_max=1 << 20):
        self.later = []
        """(pause, callback) of retries."""
        self.held = HeldProduce(
            bytes_max,
            route_of=self.route_by_id,
            is_lost=lambda link: link.lost,
            call_later=lambda pause_s, callback: self.later.append((pause_s, callback)),
        )
        self.links = {n: Link(n, self.held) for n in (1, 2)}
        self.routing = RoutingTable(self.links.get, self.held)
        self.sink = Sink()
        self.count = 0
        self.topic = topic_state("a", [(1,), (1,)])
        self.image(self.topic)

    def route_by_id(self, topic_id, partition):
        return self.routing.route(topic_id, partition)

    def image(self, *topics):
        self.routing.apply(image_of(topics=list(topics)))
        self.routing.relink()
        self.held.follow(*self.routing.take_changes())

    def moved(self, leader, partition=0):
        """Apply an image that names another leader, or none (-1)."""
        states = list(self.topic.partitions)
        states[partition] = replace(
            states[partition], leader=leader, leader_epoch=states[partition].leader_epoch + 1
        )
        self.topic = replace(self.topic, partitions=tuple(states))
        self.image(self.topic)

    def route(self, partition=0):
        return self.routing.topic(DEFAULT_INSTANCE, "a").partitions[partition]

    def send(self, batch=None, partition=0, deadline_ms=10_000, acks=1):
        batch = batch or make_batch()
        route = self.route(partition)
        route.target.append(route, acks, batch, len(batch), self.sink, self.count, deadline_ms)
        self.count += 1

    def settled(self):
        """Make the partition an ordinary one, without a hold."""
        self.send()
        self.links[1].leave()
        self.links[1].answer()
        assert self.route().target is self.links[1]
        assert self.held.partitions == 0
        return self


@pytest.fixture
def w():
    return World()


@pytest.fixture
def settled():
    return World().settled()


def idempotent(sequence):
    return make_batch(producer_id=1, producer_epoch=0, base_sequence=sequence)


def refused(known_epoch=-1):
    return Failure(NOT_LEADER, leader_epoch=known_epoch)


def test_a_new_route_sends_one_group_and_the_others_after_its_success(w):
    one = w.links[1]
    for _ in range(3):
        w.send()
    assert one.indexes == [[0]]
    one.leave()
    one.answer()
    assert w.route().target is one
    w.send()
    assert one.indexes == [[1, 2], [3]]
    assert (w.held.partitions, w.held.nbytes) == (0, 0)
    assert w.route().on_open is None, "nobody counts any more"
    w.send(partition=1)
    assert w.held.partitions == 1, "each partition for itself"


def test_a_leader_that_lacks_the_image_gets_the_group_again(w):
    one = w.links[1]
    for _ in range(2):
        w.send()
    for now_ms in (250, 500):
        one.leave()
        one.answer(refused())
        assert one.indexes == []
        assert w.sink.results == []
        w.held.expire(now_ms)
        assert one.indexes == [[0]]
    one.leave()
    one.answer()
    assert one.indexes == [[1]]
    assert w.sink.codes == {0: 0}


def test_retries_to_a_leader_that_lacks_the_image_become_rarer(w):
    one = w.links[1]
    w.send()
    for pause_s in RETRY_S:
        one.leave()
        one.answer(refused())
        ((found, retry),) = w.later
        assert found == pause_s
        assert one.indexes == []
        w.later.clear()
        retry()
        assert one.indexes == [[0]]
    one.leave()
    one.answer(refused())
    assert w.later == [], "from here on, `expire` does it"
    w.held.expire(250)
    assert one.indexes == [[0]]
    w.moved(1)
    for _ in range(2):  # The first group was sent before the image.
        assert w.later == []
        one.leave()
        one.answer(refused(EPOCH))
    assert [pause_s for pause_s, _ in w.later] == [RETRY_S[0]], "a new leader, a new beginning"
    w.image()
    w.later[0][1]()
    assert one.indexes == []
    assert w.sink.codes == {0: UNKNOWN_TOPIC}


def test_uncommitted_idempotent_groups_go_to_the_next_leader_in_order(settled):
    """Replicas move: the old leader lives, sees the image late, and answers each group itself."""
    w = settled
    one, two = w.links.values()
    for batch in (idempotent(0), make_batch(), idempotent(1)):
        w.send(batch, acks=-1)
        one.leave()
    w.send(idempotent(2), acks=-1)
    one.leave()
    w.moved(2)
    w.send(idempotent(3), acks=-1)
    assert two.indexes == [], "the old leader has not answered yet"
    for _ in range(3):
        one.answer(unknown("the leader changed before the commit"))
    assert two.indexes == []
    one.answer(refused(EPOCH + 1))
    assert w.sink.codes == {0: 0, 2: TIMED_OUT}, "the only one that may be twice if sent again"
    assert two.indexes == [[1]]
    for expected in ([1], [3], [4], [5]):
        two.leave()
        assert two.wire[0].indexes == expected
        assert two.wire[0].leader_epoch == EPOCH + 1
        two.answer()
    assert w.sink.codes == {0: 0, 2: TIMED_OUT, 1: 0, 3: 0, 4: 0, 5: 0}
    assert w.held.partitions == 0


def test_before_the_image_a_group_goes_to_the_old_leader_once_more(settled):
    w = settled
    one, two = w.links.values()
    w.send(idempotent(0), acks=-1)
    one.leave()
    one.answer(unknown("the leader changed before the commit"))
    w.later.pop(0)[1]()
    assert one.indexes == [[1]]
    one.leave()
    one.answer(refused(EPOCH + 1))
    assert w.later == [], "now it is known that an image will come"
    w.moved(2)
    two.leave()
    two.answer()
    assert w.sink.codes == {0: 0, 1: 0}


def test_not_enough_replicas_reaches_the_client_unchanged(settled):
    w = settled
    one = w.links[1]
    answers = {
        ErrorCode.NOT_ENOUGH_REPLICAS: OUTCOME_NOT_APPENDED,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: OUTCOME_APPENDED,
        TIMED_OUT: OUTCOME_APPENDED,
    }
    for code, outcome in answers.items():
        w.send(idempotent(0), acks=-1)
        one.leave()
        one.answer(Failure(code, outcome=outcome))
    assert list(w.sink.codes.values()) == [0, *answers]
    assert w.held.partitions == 0, "nothing is held for it"


def test_a_doubtful_group_may_be_in_the_log_of_a_leader_with_too_few_replicas(settled):
    w = settled
    one, two = w.links.values()
    w.send(idempotent(0), acks=-1)
    one.leave()
    one.lost = True
    w.moved(2)
    two.leave()
    two.answer(Failure(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert w.sink.codes[1] == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    w.send()
    assert two.indexes == [[2]], "it leads all the same"


def test_a_refused_group_and_those_behind_it_go_to_the_next_leader(settled):
    w = settled
    one, two = w.links.values()
    w.send()
    one.leave()
    w.send()
    w.send(acks=-1)
    one.answer(refused(EPOCH + 1))
    one.leave()
    w.send()
    assert one.indexes == [[2], [3]]
    one.answer(refused(EPOCH + 1))
    w.moved(2)
    assert two.indexes == [], "the first one still has a group"
    one.answer(refused(EPOCH + 1))
    assert two.indexes == [[1]]
    two.leave()
    assert two.wire[0].leader_epoch == EPOCH + 1
    two.answer()
    assert two.indexes == [[2], [3], [4]]
    two.leave()
    for _ in range(3):
        two.answer()
    assert w.sink.codes == dict.fromkeys(range(5), 0)
    assert (w.held.partitions, w.held.nbytes) == (0, 0)


def test_a_move_without_a_refusal_waits_for_the_old_leader(settled):
    w = settled
    one, two = w.links.values()
    w.send()
    one.leave()
    w.moved(2)
    w.send()
    assert two.indexes == []
    one.answer()
    assert two.indexes == [[2]]
    assert w.sink.codes == {0: 0, 1: 0}


@pytest.mark.parametrize("when", ["with the image", "later"])
def test_groups_that_may_be_sent_again_are_recalled_from_a_lost_leader(settled, when):
    w = settled
    one, two = w.links.values()
    w.send(idempotent(0))
    one.leave()
    w.send()
    one.leave()
    w.send()
    w.send(partition=1)
    one.lost = when == "with the image"
    w.moved(-1)
    w.send()
    w.moved(2)
    if when == "later":
        assert two.indexes == []
        one.lost = True
        w.held.expire(250)
    assert w.sink.codes == {0: 0, 2: TIMED_OUT}, "it may be in the log"
    assert one.indexes == [[4]], "that partition has not moved"
    assert two.indexes == [[1]]
    assert two.gatherer.groups.__next__().doubtful
    two.leave()
    two.answer()
    two.leave()
    assert two.indexes == [[3], [5]]


def test_a_new_link_to_the_same_leader_is_a_move(settled):
    w = settled
    old = w.links[1]
    w.send(idempotent(0))
    old.leave()
    old.lost = True
    w.links[1] = Link(1, w.held)
    w.send()
    w.image(w.topic)
    assert old.indexes == []
    assert w.links[1].indexes == [[1]]
    w.links[1].leave()
    w.links[1].answer()
    assert w.links[1].indexes == [[2]]


def test_without_a_leader_batches_wait_and_are_answered_before_their_deadline(settled):
    w = settled
    w.moved(-1)
    w.send(deadline_ms=2_000)
    w.send(deadline_ms=9_000)
    w.held.expire(1_999 - ANSWER_EARLY_MS)
    assert w.sink.codes == {0: 0}
    w.held.expire(2_000 - ANSWER_EARLY_MS)
    assert w.sink.codes == {0: 0, 1: NOT_LEADER}
    w.moved(2)
    assert w.links[2].indexes == [[2]]


def test_a_doubtful_group_is_never_answered_as_not_stored(settled):
    w = settled
    one, two = w.links.values()
    w.send(idempotent(0))
    one.leave()
    one.lost = True
    w.moved(2)
    two.leave()
    w.held.close()
    two.answer(refused())
    assert w.sink.codes == {0: 0, 1: TIMED_OUT}


def test_a_doubtful_group_whose_refusal_is_not_held_times_out(settled):
    w = settled
    one, two = w.links.values()
    for sequence in (0, 1):
        w.send(idempotent(sequence))
        one.leave()
    one.lost = True
    w.moved(2)
    w.send()
    two.leave()
    two.answer()
    two.leave()
    assert two.indexes == [[2], [3]]
    assert two.wire[0].doubtful
    two.answer(refused())
    two.answer(refused())
    assert w.sink.codes == {0: 0, 1: 0, 2: TIMED_OUT, 3: NOT_LEADER}


def test_groups_refused_for_other_reasons_are_answered(settled):
    w = settled
    one = w.links[1]
    for failure in (Failure(87), unknown("lost"), Failure(NOT_LEADER, outcome=3)):
        w.send()
        one.leave()
        one.answer(failure)
    assert list(w.sink.codes.values()) == [0, 87, TIMED_OUT, NOT_LEADER]
    assert w.held.partitions == 0


def test_a_deleted_topic_is_answered_at_once(settled):
    w = settled
    one = w.links[1]
    for _ in range(2):
        w.send()
        one.leave()
    one.answer(refused(EPOCH + 1))
    w.send()
    assert w.sink.codes == {0: 0}
    w.image()
    assert w.sink.codes == {0: 0, 1: UNKNOWN_TOPIC, 3: UNKNOWN_TOPIC}
    one.answer(refused())
    assert w.sink.codes[2] == UNKNOWN_TOPIC
    assert (w.held.partitions, w.held.nbytes) == (0, 0)


def test_a_refusal_that_others_may_overtake_is_answered_and_not_held(settled):
    w = settled
    one = w.links[1]
    for _ in range(2):
        w.send()
        one.leave()
    one.answer(refused())
    w.send()
    one.leave()
    one.answer(not_sent("gone"))
    one.answer()
    assert list(w.sink.codes.values()) == [0, NOT_LEADER, NOT_LEADER, 0]
    assert w.held.partitions == 0


def test_held_bytes_are_limited_over_all_partitions():
    size = len(make_batch())
    w = World(bytes_max=2 * size).settled()
    w.moved(-1)
    w.moved(-1, partition=1)
    w.send()
    w.send(partition=1)
    assert w.held.nbytes == 2 * size
    w.send()
    assert w.sink.codes == {0: 0, 1: NOT_LEADER, 3: NOT_LEADER}
    assert w.held.nbytes == size


def test_a_gateway_that_stops_answers_and_holds_nothing_more(settled):
    w = settled
    w.moved(-1)
    w.send()
    w.held.close()
    w.send()
    assert [(i, f.error_code, f.outcome) for i, _, f in w.sink.results[1:]] == [
        (1, NOT_LEADER, OUTCOME_NOT_APPENDED),
        (2, NOT_LEADER, OUTCOME_NOT_APPENDED),
    ]
    assert w.held.nbytes == 0
