"""Groups that are appended together: which, and that each hears what concerns it."""

import pytest

from highwater.hop.append import TransactionalWrite
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane import joined_groups
from highwater.partition.data_plane.joined_groups import JoinedGroup, joined
from tests.unit.hop.sinks import Owner, Sink, group_of

WRITE = TransactionalWrite("payments", adds_partition=True)


def group(*batches, **spec):
    return group_of(*(batches or (bytearray(b"one"),)), transaction=WRITE, **spec)


def lengths(*groups):
    """How many members each of the appended groups has."""
    return [len(one.members) if isinstance(one, JoinedGroup) else 1 for one in joined(groups)]


def test_one_stays_what_it_is():
    alone = group()
    assert list(joined([alone])) == [alone]
    assert list(joined([])) == []


def test_the_batches_of_all_in_their_order():
    first, second = group(bytearray(b"a"), bytearray(b"bc")), group(bytearray(b"d"))
    (together,) = joined([first, second])
    assert together.batches == [b"a", b"bc", b"d"]
    assert (together.nbytes, together.transaction, together.acks) == (4, WRITE, first.acks)
    assert (together.topic_id, together.partition, together.leader_epoch) == (
        first.topic_id,
        first.partition,
        first.leader_epoch,
    )


@pytest.mark.parametrize("unlike", [{"acks": -1}, {"epoch": 9}, {"deadline_ms": 101}])
def test_only_what_the_log_treats_alike(unlike):
    assert lengths(group(), group(), group(**unlike), group(**unlike), group()) == [2, 2, 1]


def test_one_that_may_not_be_patched_is_for_itself():
    other = group()
    other.writable = False
    assert lengths(group(), other) == [1, 1]


def test_it_ends_with_the_latest_deadline():
    (together,) = joined([group(deadline_ms=1_000), group(deadline_ms=1_100)])
    assert together.last_deadline_ms == 1_100


def test_limits(monkeypatch):
    monkeypatch.setattr(joined_groups, "GROUP_BATCHES_MAX", 2)
    assert lengths(group(), group(), group()) == [2, 1]
    monkeypatch.setattr(joined_groups, "GROUP_BATCHES_MAX", 9)
    monkeypatch.setattr(joined_groups, "GROUP_BYTES_MAX", 3)
    assert lengths(group(), group()) == [1, 1]


def test_each_hears_of_its_batches():
    sinks = [Sink(), Sink(), Sink()]
    groups = [
        group(bytearray(b"a"), sink=sinks[0]),
        group(bytearray(b"b"), bytearray(b"c"), sink=sinks[1]),
        group(bytearray(b"d"), sink=sinks[2]),
    ]
    (together,) = joined(groups)
    together.log_start_offset, together.log_append_time_ms = 4, 5
    together.known_timestamps = {1: 77}
    failure = joined_groups.Failure(ErrorCode.INVALID_TXN_STATE)
    together.complete([10, 3, -1, 11], {2: failure})
    assert [sink.offsets for sink in sinks] == [{0: 10}, {0: 3, 1: -1}, {0: 11}]
    assert [sink.codes for sink in sinks] == [
        {0: 0},
        {0: 0, 1: ErrorCode.INVALID_TXN_STATE},
        {0: 0},
    ]
    assert [each.known_timestamps for each in groups] == [None, {0: 77}, None]
    assert {(each.log_start_offset, each.log_append_time_ms) for each in groups} == {(4, 5)}
    assert all(each.completed for each in groups)


def test_a_failure_of_all():
    sinks = [Sink(), Sink()]
    (together,) = joined([group(sink=sink) for sink in sinks])
    together.fail(joined_groups.Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert [sink.codes for sink in sinks] == [{0: ErrorCode.NOT_LEADER_OR_FOLLOWER}] * 2


def test_a_bug_of_one_owner_keeps_no_answer_from_others():
    def breaks(*_result):
        raise RuntimeError("a bug")

    last = Sink()
    (together,) = joined([group(owner=Owner(breaks)), group(sink=last)])
    with pytest.raises(RuntimeError, match="a bug"):
        together.complete([0, 1])
    assert last.offsets == {0: 1}


def test_bytes_that_may_be_sent_again_stay_with_their_member():
    kept, of_stream = group(), group()
    of_stream.sinks, of_stream.indexes = [], []
    (together,) = joined([kept, of_stream])
    together.release_bytes()
    assert kept.batches == [b"one"]
    assert [len(batch) for batch in (*of_stream.batches, *together.batches)] == [0, 0, 0]
