"""Holding produce while a leader moves: what is held, when it leaves, and the answers."""

import pytest

from highwater.gateway.core.produce_hold import (
    HoldLedger,
    PartitionHold,
    Refusal,
    refusal_of,
)
from highwater.hop.append import (
    OUTCOME_APPENDED,
    OUTCOME_NOT_APPENDED,
    OUTCOME_UNKNOWN,
    Failure,
)
from highwater.hop.append_expiry import AppendExpiry, not_sent, unknown
from highwater.kafka.error_codes import ErrorCode
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Sink, group_of, route

EPOCH = 4
NOT_LEADER, TIMED_OUT = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT


def idempotent(sequence, producer_id=1):
    return make_batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def refused(known_epoch=-1):
    return Failure(NOT_LEADER, leader_epoch=known_epoch)


class World:
    def __init__(self, bytes_max=1 << 20):
        self.ledger = HoldLedger(bytes_max)
        self.hold = PartitionHold(route(epoch=EPOCH), self.ledger, owner=None, led=True)
        self.sink = Sink()
        self.count = 0

    def leave(self, *batches, deadline_ms=1000):
        """Send a group to the leader in the present epoch."""
        group = group_of(
            *(batches or [make_batch()]),
            epoch=self.hold.epoch,
            sink=self.sink,
            deadline_ms=deadline_ms,
        )
        group.indexes = list(range(self.count, self.count + len(group.batches)))
        self.count += len(group.batches)
        self.hold.sent(group)
        return group

    def wait(self, batch=None, deadline_ms=1000, acks=1):
        batch = batch or make_batch()
        self.hold.append(acks, batch, len(batch), self.sink, self.count, deadline_ms)
        self.count += 1

    def end(self, group, failure):
        return self.hold.completed(
            group, failure and dict.fromkeys(range(len(group.batches)), failure)
        )


@pytest.fixture
def w():
    return World()


def indexes(groups):
    return [index for group in groups for index in group.indexes]


def test_batches_are_not_held_without_a_reason(w):
    group = w.leave()
    assert w.hold.straight
    assert not w.end(group, None)
    assert not w.end(w.leave(), Failure(45))
    assert w.hold.straight
    assert w.hold.take(retry=True) == []


def test_refused_groups_and_later_batches_leave_in_order_with_the_newer_image(w):
    groups = [w.leave(make_batch(), make_batch()), w.leave()]
    assert w.end(groups[0], refused(EPOCH + 1))
    assert not w.hold.straight
    w_before = w.ledger.nbytes
    assert w_before == groups[0].nbytes
    assert w.end(groups[1], refused(EPOCH + 1)), "the node will not take it either"
    w.wait()
    w.wait()
    assert w.hold.take() == w.hold.take(retry=True) == [], "the present epoch is over"
    w.hold.moved(EPOCH + 1, led=False)
    assert w.hold.take() == []
    w.hold.moved(EPOCH + 2, led=True)
    (probe,) = w.hold.take()
    assert probe is groups[0]
    assert w.hold.take(retry=True) == [], "nothing follows before it is taken"
    assert not w.hold.straight
    assert not w.end(probe, None)
    again = w.hold.take()
    assert indexes(again) == [2, 3, 4]
    assert {group.leader_epoch for group in [probe, *again]} == {EPOCH + 2}
    assert (w.ledger.nbytes, w.sink.results) == (0, [])
    assert w.hold.straight
    assert w.end(again[0], refused(EPOCH + 3)), "and once more"


def test_a_refused_probe_returns_to_the_head_of_the_queue(w):
    assert w.end(w.leave(), refused(EPOCH + 1))
    w.wait()
    w.hold.moved(EPOCH + 1, led=True)
    for _ in range(3):
        (probe,) = w.hold.take(retry=True)
        assert probe.indexes == [0]
        w.wait()
        assert w.end(probe, refused()), "the node does not know yet that it leads"
        assert w.hold.take() == []
    (probe,) = w.hold.take(retry=True)
    assert not w.end(probe, None)
    assert indexes(w.hold.take()) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("failure", "trusted"),
    [
        (Failure(45), True),
        (Failure(TIMED_OUT, outcome=OUTCOME_APPENDED), True),
        (unknown("no answer"), False),
    ],
)
def test_a_leader_gets_more_batches_after_its_own_answer(w, failure, trusted):
    w.hold.moved(EPOCH + 1, led=True)
    w.wait()
    (probe,) = w.hold.take()
    w.wait()
    w.wait(acks=-1)
    assert not w.end(probe, failure)
    assert indexes(w.hold.take()) == ([1, 2] if trusted else [1])
    assert w.hold.straight is trusted


def test_recalled_groups_stay_in_order_and_possible_duplicates_are_answered(w):
    on_wire = [w.leave(idempotent(0)), w.leave(make_batch()), w.leave(idempotent(1))]
    for group in on_wire:
        group.attempted = True
    unsent = w.leave(make_batch())
    w.hold.moved(EPOCH + 1, led=True)
    w.wait()
    for group in [*on_wire, unsent]:
        assert w.hold.take() == [], "not before all are back"
        w.hold.recalled(group)
    assert w.sink.codes == {1: TIMED_OUT}
    (probe,) = w.hold.take()
    assert (probe.indexes, probe.doubtful, probe.attempted) == ([0], True, True)
    w.hold.moved(EPOCH + 2, led=True)
    w.hold.recalled(probe)
    (probe,) = w.hold.take()
    assert probe.indexes == [0], "it has its place before the others again"
    assert not w.end(probe, None)
    rest = w.hold.take()
    assert [(g.indexes, g.doubtful) for g in rest] == [([2], True), ([3], False), ([4], False)]


def test_groups_recalled_behind_an_answered_refusal_are_answered_too(w):
    first, second, third = w.leave(), w.leave(), w.leave(idempotent(0))
    third.attempted = True
    assert not w.end(first, refused())
    w.hold.moved(EPOCH + 1, led=False)
    w.hold.recalled(second)
    w.hold.recalled(third)
    assert w.sink.codes == {1: NOT_LEADER, 2: TIMED_OUT}
    assert w.hold.over


def test_groups_without_batches_do_not_hold_up_others(w):
    group = w.leave(deadline_ms=100)
    w.hold.moved(EPOCH + 1, led=True)
    w.wait()
    group.batches.clear()
    w.hold.expire(50)
    assert indexes(w.hold.take()) == [1]


@pytest.mark.parametrize("as_probe", [False, True])
def test_a_group_whose_batches_were_all_answered_is_not_sent_again(w, as_probe):
    if as_probe:
        w.hold.moved(EPOCH + 1, led=True)
        w.wait()
        (group,) = w.hold.take()
    else:
        group = w.leave()
    group.attempted = True
    expiry = AppendExpiry(1000, "the node hangs")
    expiry.answer_sent(group)
    expiry.tell()
    assert w.sink.codes == {0: TIMED_OUT}
    w.wait(deadline_ms=5000)
    assert w.end(group, refused(EPOCH + 2))
    w.hold.moved(EPOCH + 2, led=True)
    (probe,) = w.hold.take()
    assert probe.indexes == [1], "the other has no bytes left that could be sent"
    assert w.ledger.nbytes == 0
    assert not w.end(probe, None)
    assert w.hold.straight


def test_a_batch_that_was_answered_is_not_sent_to_the_next_leader(w):
    """Its client may have sent it again, so it would be in the log twice."""
    group = w.leave(make_batch(), make_batch(), deadline_ms=1000)
    group.later_deadlines = {1: 5000}
    group.attempted = True
    expiry = AppendExpiry(1000, "the node hangs")
    expiry.answer_sent(group)
    expiry.tell()
    assert w.sink.codes == {0: TIMED_OUT}
    assert w.end(group, refused(EPOCH + 1))
    w.hold.moved(EPOCH + 1, led=True)
    (probe,) = w.hold.take()
    assert probe.indexes == [1]
    assert (len(probe.batches), w.ledger.nbytes) == (1, 0)


def test_for_a_deleted_topic_all_batches_are_answered_with_its_code(w):
    assert w.end(w.leave(), refused(EPOCH + 1))
    w.wait()
    w.hold.fail(Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert w.sink.codes == dict.fromkeys([0, 1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert w.ledger.nbytes == 0


def test_a_hold_is_over_when_it_has_no_state_left(w):
    assert w.hold.over
    group, other = w.leave(), w.leave()
    assert w.hold.over, "what is under way can be counted again"
    assert not w.end(group, refused())
    assert not w.hold.over, "refusals pass until nothing is under way"
    assert not w.end(other, refused())
    assert w.hold.over
    w.hold.moved(EPOCH + 1, led=False)
    assert w.hold.over
    w.wait()
    assert not w.hold.over


def test_no_batch_overtakes_groups_under_way_to_the_old_leader(w):
    old = w.leave()
    w.hold.moved(EPOCH + 1, led=True)
    assert not w.hold.straight
    w.wait()
    assert w.hold.take(retry=True) == []
    assert w.end(old, refused(EPOCH + 1))
    assert indexes(w.hold.take()) == [0]


def test_an_append_by_the_old_leader_releases_the_other_batches(w):
    old = w.leave()
    w.hold.moved(EPOCH + 1, led=True)
    w.wait()
    assert not w.end(old, None)
    (probe,) = w.hold.take()
    assert probe.indexes == [1]
    assert not w.end(probe, None)
    assert w.hold.straight


def test_a_node_behind_the_image_is_tried_again_when_nothing_else_is_under_way(w):
    group = w.leave()
    assert w.end(group, refused(EPOCH - 1))
    w.wait()
    assert w.hold.take() == []
    assert indexes(w.hold.take(retry=True)) == [0]


def test_a_refusal_that_may_be_overtaken_is_answered_with_those_after_it(w):
    first, second, third = w.leave(), w.leave(), w.leave()
    assert not w.end(first, refused())
    assert not w.end(second, refused(EPOCH + 1))
    assert not w.end(third, refused()), "the client sends the first ones again, behind nothing"
    assert w.end(w.leave(), refused()), "that is over"


def test_after_a_lost_link_only_idempotent_groups_are_held(w):
    assert not w.end(w.leave(make_batch()), unknown("gone"))
    group = w.leave(idempotent(0))
    assert w.end(group, unknown("gone"))
    (again,) = w.hold.take(retry=True)
    assert again.doubtful
    assert w.end(again, refused(EPOCH + 1)), "refused there, and still doubtful"
    w.hold.give_up("the end")
    assert w.sink.codes == {group.indexes[0]: TIMED_OUT}


def test_idempotent_batches_of_a_mixed_group_go_to_the_next_leader(w):
    """The client would resend them behind the next batches of their producers."""
    mixed = w.leave(make_batch(), idempotent(0), make_batch(), idempotent(0, producer_id=2))
    behind = w.leave(idempotent(1))
    assert w.end(mixed, unknown("the leader changed before the commit"))
    assert w.sink.codes == {0: TIMED_OUT, 2: TIMED_OUT}
    assert w.end(behind, refused(EPOCH + 1))
    assert w.ledger.nbytes == mixed.nbytes + behind.nbytes == 3 * len(idempotent(0))
    w.hold.moved(EPOCH + 1, led=True)
    (probe,) = w.hold.take()
    assert (probe.indexes, probe.doubtful) == ([1, 3], True)
    assert not w.end(probe, None)
    assert indexes(w.hold.take()) == [4]


def test_idempotent_batches_of_a_recalled_mixed_group_go_to_the_next_leader(w):
    mixed = w.leave(idempotent(0), make_batch())
    mixed.attempted = True
    w.hold.moved(EPOCH + 1, led=True)
    w.hold.recalled(mixed)
    assert w.sink.codes == {1: TIMED_OUT}
    assert indexes(w.hold.take()) == [0]


def test_a_retry_is_allowed_while_the_leader_may_lack_the_image(w):
    assert not w.hold.may_retry
    assert w.end(w.leave(idempotent(0)), refused())
    assert w.hold.may_retry
    (again,) = w.hold.take(retry=True)
    assert not w.hold.may_retry, "it is under way"
    assert w.end(again, refused(EPOCH + 1))
    assert not w.hold.may_retry, "a newer image has to come"
    w.hold.moved(EPOCH + 1, led=True)
    assert not w.hold.may_retry, "it may leave at once"


def test_an_expired_batch_is_answered_with_those_that_would_overtake_it(w):
    assert w.end(w.leave(idempotent(0), deadline_ms=100), refused(EPOCH + 1))
    w.wait(idempotent(1), deadline_ms=900)
    w.wait(make_batch(), deadline_ms=900)
    w.hold.expire(99)
    assert w.sink.results == []
    w.hold.expire(100)
    assert w.sink.codes == {0: NOT_LEADER, 1: NOT_LEADER}
    assert w.ledger.nbytes == len(make_batch())
    w.hold.expire(900)
    assert list(w.sink.codes) == [0, 1, 2]
    assert (w.ledger.nbytes, w.hold.holding, w.hold.over) == (0, False, True)


@pytest.mark.parametrize("by", ["a group", "a batch"])
def test_when_memory_is_full_all_held_batches_are_answered_in_order(by):
    size = len(make_batch())
    w = World(bytes_max=2 * size)
    groups = [w.leave() for _ in range(3 if by == "a group" else 1)]
    for group in groups:
        assert w.end(group, refused(EPOCH + 1))
    if by == "a batch":
        w.wait()
        w.wait()
    assert [(index, f.error_code) for index, _, f in w.sink.results] == [
        (n, NOT_LEADER) for n in range(3)
    ]
    assert (w.ledger.nbytes, w.hold.over) == (0, True)


@pytest.mark.parametrize(
    ("failures", "found"),
    [
        ({0: refused(EPOCH + 1), 1: refused()}, Refusal.MOVED),
        ({0: refused(EPOCH), 1: refused()}, Refusal.BEHIND),
        ({0: not_sent("gone"), 1: not_sent("gone")}, Refusal.BEHIND),
        ({0: unknown("gone"), 1: unknown("gone")}, Refusal.UNKNOWN),
        ({0: unknown("gone")}, None),
        ({0: refused(), 1: Failure(45)}, None),
        ({0: refused(), 1: unknown("gone")}, None),
        ({n: Failure(NOT_LEADER, outcome=OUTCOME_UNKNOWN) for n in range(2)}, None),
        ({n: Failure(ErrorCode.KAFKA_STORAGE_ERROR) for n in range(2)}, None),
        ({n: Failure(TIMED_OUT, outcome=OUTCOME_APPENDED) for n in range(2)}, None),
    ],
)
def test_which_failures_allow_a_resend(failures, found):
    group = group_of(idempotent(0), idempotent(1), epoch=EPOCH)
    assert refusal_of(group, failures) is found
    others = group_of(make_batch(), make_batch(), epoch=EPOCH)
    assert refusal_of(others, failures) is (None if found is Refusal.UNKNOWN else found)


def test_a_refusal_of_a_leader_without_a_session_is_answered_and_not_held(w):
    """It accepts acks=all, which must not wait behind refused groups."""
    first, second = w.leave(), w.leave()
    refusal = Failure(NOT_LEADER, "no session", leader=1, leader_epoch=EPOCH)
    assert not w.end(first, refusal)
    assert not w.hold.holding
    assert not w.end(second, None)
    alone = w.leave()
    assert not w.end(alone, refusal), "also if nothing else is under way"
    assert w.hold.straight


def test_a_node_that_names_no_leader_counts_as_behind_the_image(w):
    group = w.leave()
    assert w.end(group, Failure(NOT_LEADER, leader=-1, leader_epoch=EPOCH))
    assert w.hold.holding


@pytest.mark.parametrize(
    "failure",
    [
        Failure(ErrorCode.NOT_ENOUGH_REPLICAS),
        Failure(NOT_LEADER, leader=1, leader_epoch=EPOCH + 1),
        Failure(TIMED_OUT),
    ],
    ids=["small ISR", "no session", "full queue"],
)
def test_batches_behind_a_refused_one_of_their_producer_are_answered(w, failure):
    w.hold.moved(EPOCH + 1, led=True)
    w.wait(idempotent(0))
    (probe,) = w.hold.take()
    w.wait(idempotent(5))
    w.wait(idempotent(0, producer_id=2))
    w.wait()
    failures = {0: failure}
    assert not w.hold.completed(probe, failures)
    w.hold.answered(probe, failures)
    assert w.sink.codes == {1: NOT_LEADER}, "sent, it would be out of order"
    assert w.sink.results[0][2].outcome == OUTCOME_NOT_APPENDED


def test_batches_behind_one_that_is_in_the_log_are_sent(w):
    w.hold.moved(EPOCH + 1, led=True)
    w.wait(idempotent(0))
    (probe,) = w.hold.take()
    w.wait(idempotent(5))
    failures = {0: Failure(TIMED_OUT, outcome=OUTCOME_APPENDED)}
    assert not w.hold.completed(probe, failures)
    w.hold.answered(probe, failures)
    assert w.sink.results == []
    assert indexes(w.hold.take()) == [1]


def test_a_batch_that_no_client_sends_again_takes_no_others_with_it(w):
    w.hold.moved(EPOCH + 1, led=True)
    w.wait(idempotent(0))
    (probe,) = w.hold.take()
    w.wait(idempotent(5))
    failures = {0: Failure(ErrorCode.CORRUPT_MESSAGE)}
    assert not w.hold.completed(probe, failures)
    w.hold.answered(probe, failures)
    assert w.sink.results == []
