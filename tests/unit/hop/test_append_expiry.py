"""Expiry: which sinks get which error, which batches stay, and which expire together."""

import pytest

from highwater.hop.append import OUTCOME_NOT_APPENDED, OUTCOME_UNKNOWN
from highwater.hop.append_expiry import (
    ANSWERED,
    NEVER_MS,
    AppendExpiry,
    answer_others,
    any_idempotent,
    drop_answered,
    is_idempotent,
    not_sent,
    unknown,
)
from highwater.kafka.error_codes import ErrorCode
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Sink, group_of


def idempotent(sequence, producer_id=1):
    return make_batch(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def mixed(sink, *deadlines, batches=None, **spec):
    """A group of batches with these deadlines."""
    batches = batches or [make_batch() for _ in deadlines]
    group = group_of(*batches, sink=sink, deadline_ms=min(deadlines), **spec)
    group.later_deadlines = dict(enumerate(deadlines))
    return group


def test_sinks_of_sent_batches_expire_once_at_their_own_deadlines():
    sink = Sink()
    group = mixed(sink, 300, 100, 200)
    for now_ms, told in ((99, []), (100, [1]), (250, [1, 2]), (250, [1, 2]), (999, [1, 2, 0])):
        expiry = AppendExpiry(now_ms, "late")
        expiry.answer_sent(group)
        expiry.tell()
        assert [index for index, _, _ in sink.results] == told
    assert {f.error_code for _, _, f in sink.results} == {ErrorCode.REQUEST_TIMED_OUT}
    assert {f.outcome for _, _, f in sink.results} == {OUTCOME_UNKNOWN}
    assert group.deadline_ms == NEVER_MS
    assert group.sinks == [ANSWERED] * 3
    assert group.batches == [b""] * 3, "its memory is free"
    group.complete([5, 6, 7])
    assert len(sink.results) == 3, "the late answer is nobody's"


def test_idempotent_batches_on_the_wire_are_kept_for_the_next_stream():
    batches = [idempotent(0), idempotent(1)]
    group = mixed(Sink(), 1, 1, batches=batches)
    AppendExpiry(1, "late").answer_sent(group)
    assert group.batches == batches


def test_expired_batches_are_not_sent_again_with_their_group():
    sink = Sink()
    group = mixed(sink, 1, 2, 1, batches=[make_batch(), make_batch(), idempotent(0)])
    expiry = AppendExpiry(1, "late")
    expiry.answer_sent(group)
    expiry.tell()
    waiting, known = group.batches[1:]
    drop_answered(group)
    assert (group.batches, group.indexes) == ([waiting, known], [1, 2])
    assert group.nbytes == len(waiting) + len(known)
    AppendExpiry(2, "late").answer_sent(group)
    assert group.sinks == [ANSWERED] * 2
    untouched = mixed(sink, 300, 100)
    drop_answered(untouched)
    assert len(untouched.batches) == 2


def test_unsent_batches_expire_at_their_own_deadlines():
    sink = Sink()
    group = mixed(sink, 300, 100, 200)
    size = group.nbytes // 3
    expiry = AppendExpiry(100, "late")
    assert expiry.take_unsent(group) == size
    assert sink.results == [], "before everything has been looked at"
    expiry.tell()
    assert sink.codes == {1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert sink.results[0][2].outcome == OUTCOME_NOT_APPENDED
    assert (group.indexes, len(group.batches), group.nbytes) == ([0, 2], 2, 2 * size)
    assert group.deadline_ms == 200
    expiry = AppendExpiry(200, "late")
    assert expiry.take_unsent(group) == size
    expiry.tell()
    assert list(sink.codes) == [1, 2]
    assert (group.indexes, group.deadline_ms) == ([0], 300)


def test_a_batch_once_sent_is_never_reported_as_unsent():
    sink = Sink()
    group = group_of(idempotent(0), sink=sink, deadline_ms=1)
    group.attempted = True
    expiry = AppendExpiry(1, "late")
    expiry.take_unsent(group)
    expiry.tell()
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT}


@pytest.mark.parametrize("attempted", [False, True])
def test_later_batches_of_the_producer_expire_too_in_that_partition_only(attempted):
    sinks = [Sink() for _ in range(3)]
    first = mixed(sinks[0], 100, 900, batches=[idempotent(0), idempotent(0, producer_id=2)])
    second = mixed(
        sinks[1], 900, 900, 900, batches=[idempotent(1), idempotent(1, producer_id=2), make_batch()]
    )
    other = mixed(sinks[2], 900, batches=[idempotent(0)], partition=1)
    first.attempted = attempted
    expiry = AppendExpiry(100, "late")
    for group in (first, second, other):
        expiry.take_unsent(group)
    expiry.tell()
    lost = ErrorCode.REQUEST_TIMED_OUT if attempted else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert sinks[0].codes == {0: lost}
    assert sinks[1].codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert sinks[2].codes == {}
    assert (first.indexes, second.indexes, other.indexes) == ([1], [1, 2], [0])


def test_batches_without_a_producer_expire_separately():
    sink = Sink()
    group = mixed(sink, 100, 900)
    expiry = AppendExpiry(100, "late")
    expiry.take_unsent(group)
    expiry.tell()
    assert (list(sink.codes), group.indexes) == ([0], [1])


def test_idempotence_is_read_from_the_batch():
    assert is_idempotent(idempotent(0))
    assert not is_idempotent(make_batch())
    assert not is_idempotent(b"cut")
    assert any_idempotent(group_of(make_batch(), idempotent(1)))
    assert not any_idempotent(group_of(make_batch(), make_batch()))


def test_other_batches_are_answered_and_idempotent_ones_stay_in_order():
    sink = Sink()
    batches = [make_batch(), idempotent(0), make_batch(), idempotent(1)]
    group = mixed(sink, 100, 200, 300, 400, batches=batches)
    answer_others(group, unknown("gone"))
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT, 2: ErrorCode.REQUEST_TIMED_OUT}
    assert (group.batches, group.indexes) == ([batches[1], batches[3]], [1, 3])
    assert group.nbytes == len(batches[1]) + len(batches[3])
    assert (group.deadline_ms, group.later_deadlines) == (200, {0: 200, 1: 400})
    answer_others(group, unknown("gone"))
    assert len(sink.results) == 2


def test_the_failures():
    assert (unknown("a").error_code, unknown("a").outcome) == (7, OUTCOME_UNKNOWN)
    assert (not_sent("a").error_code, not_sent("a").outcome) == (6, OUTCOME_NOT_APPENDED)
