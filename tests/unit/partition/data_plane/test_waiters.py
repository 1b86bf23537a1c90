"""Each wait is answered once and in order, and leaves nothing behind."""

from highwater.hop.append import OUTCOME_APPENDED, OUTCOME_UNKNOWN, AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane import waiters as module
from highwater.partition.data_plane.waiters import CommitWait, FetchWait, Waiters
from tests.unit.hop.sinks import Sink, group_of


def commit(waiters, required_offset, *, deadline_ms=0):
    sink = Sink()
    group = group_of(b"b", sink=sink, deadline_ms=deadline_ms)
    waiters.add_commit(CommitWait(group, [required_offset - 1], None, required_offset))
    return sink


def test_bytes_of_all_partitions_count_for_a_waiting_fetch():
    done, here, there = [], Waiters(), Waiters()
    wait = FetchWait(100, done.append, done.append)
    here.add_fetch(wait)
    there.add_fetch(wait)
    here.bytes_committed(60)
    assert done == []
    there.bytes_committed(40)
    assert done == [wait]
    assert here.fetches == there.fetches == {}
    here.bytes_committed(1000)
    assert done == [wait]


def test_a_wait_that_an_earlier_one_ended_is_not_answered_again():
    done, here = [], Waiters()
    second = FetchWait(1, done.append, done.append)

    def finish(wait):
        done.append(wait)
        second.leave()

    first = FetchWait(1, finish, done.append)
    here.add_fetch(first)
    here.add_fetch(second)
    here.bytes_committed(5)
    assert done == [first]


def test_leaving_gives_no_answer_and_may_be_repeated():
    done, here = [], Waiters()
    wait = FetchWait(1, done.append, done.append)
    here.add_fetch(wait)
    wait.leave()
    wait.leave()
    here.bytes_committed(5)
    assert done == []
    assert wait.finished


def test_waiting_fetches_read_when_the_high_watermark_has_caught_up():
    looked, here = [], Waiters()

    def look(wait):
        looked.append(wait)
        second.leave()

    first, second = (FetchWait(1, looked.append, look) for _ in range(2))
    here.add_fetch(first)
    here.add_fetch(second)
    here.caught_up()
    assert looked == [first], "the other one was ended by the first"
    assert not first.finished


def test_commits_are_answered_in_the_order_of_offsets():
    waiters = Waiters()
    sinks = [commit(waiters, n) for n in (3, 5, 9)]
    waiters.offset_committed(2)
    assert [s.offsets for s in sinks] == [{}, {}, {}]
    waiters.offset_committed(5)
    assert [s.offsets for s in sinks] == [{0: 2}, {0: 4}, {}]
    waiters.offset_committed(9)
    assert sinks[2].offsets == {0: 8}


def test_the_end_of_leadership_answers_all_waits():
    done, waiters = [], Waiters()
    fetches = [FetchWait(1, done.append, done.append) for _ in range(3)]
    for wait in fetches:
        waiters.add_fetch(wait)
    sinks = [commit(waiters, n) for n in (3, 5)]
    waiters.leader_gone(7)
    assert done == fetches
    assert [s.codes for s in sinks] == [{0: 7}, {0: 7}]
    assert sinks[0].results[0][2].outcome == OUTCOME_UNKNOWN
    assert not waiters.commits
    assert not waiters.fetches


def test_at_the_end_of_leadership_a_refused_batch_keeps_its_failure():
    """A refused batch is in no log, whatever happens to its group."""
    waiters = Waiters()
    sink = Sink()
    group = AppendGroup(b"t" * 16, 0, 1, -1, "")
    for index in range(2):
        group.batches.append(b"")
        group.sinks.append(sink)
        group.indexes.append(index)
    refused = Failure(ErrorCode.CORRUPT_MESSAGE, "bad CRC")
    waiters.add_commit(CommitWait(group, [5, -1], {1: refused}, 6))
    waiters.leader_gone(ErrorCode.REQUEST_TIMED_OUT)
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT, 1: ErrorCode.CORRUPT_MESSAGE}


def test_a_commit_past_its_deadline_is_answered_and_forgotten():
    waiters = Waiters()
    early, late, own = [commit(waiters, n + 1, deadline_ms=d) for n, d in enumerate((50, 40, 0))]
    waiters.expire_commits(39, ErrorCode.REQUEST_TIMED_OUT)
    assert len(waiters.commits) == 3
    waiters.expire_commits(40, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    assert late.codes == {0: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
    assert late.results[0][2].outcome == OUTCOME_APPENDED, "not to be sent again by a gateway"
    assert early.codes == {}
    waiters.expire_commits(10**9, ErrorCode.REQUEST_TIMED_OUT)
    assert early.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    assert own.codes == {}, "a coordinator's append has no deadline here"
    waiters.offset_committed(3)
    assert own.offsets == {0: 2}
    assert len(late.results) == 1


def test_a_group_waits_until_the_last_of_its_deadlines():
    waiters, sink = Waiters(), Sink()
    group = group_of(b"a", b"b", sink=sink, deadline_ms=40)
    group.later_deadlines = {1: 90}
    waiters.add_commit(CommitWait(group, [0, 1], None, 2))
    waiters.expire_commits(89, ErrorCode.REQUEST_TIMED_OUT)
    assert sink.codes == {}
    waiters.expire_commits(90, ErrorCode.REQUEST_TIMED_OUT)
    assert sink.codes == dict.fromkeys((0, 1), ErrorCode.REQUEST_TIMED_OUT)


def test_at_the_deadline_a_refused_batch_keeps_its_failure():
    waiters, sink = Waiters(), Sink()
    group = group_of(b"a", b"b", sink=sink, deadline_ms=1)
    failure = Failure(ErrorCode.INVALID_RECORD)
    waiters.add_commit(CommitWait(group, [0, -1], {1: failure}, 1))
    waiters.expire_commits(1, ErrorCode.REQUEST_TIMED_OUT)
    assert sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT, 1: ErrorCode.INVALID_RECORD}


def test_if_too_many_commits_wait_the_first_is_answered(monkeypatch):
    monkeypatch.setattr(module, "COMMITS_MAX", 2)
    waiters = Waiters()
    first, second, third = [commit(waiters, n) for n in (1, 2, 3)]
    assert [s.codes for s in (first, second, third)] == [{0: ErrorCode.REQUEST_TIMED_OUT}, {}, {}]
    assert len(waiters.commits) == 2
