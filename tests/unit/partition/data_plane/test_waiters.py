"""Who waits is told once, in order, and leaves nothing behind."""

from highwater.hop.append import OUTCOME_UNKNOWN
from highwater.partition.data_plane.waiters import CommitWait, FetchWait, Waiters
from tests.unit.hop.sinks import Sink, group_of


def commit(waiters, required_offset):
    sink = Sink()
    waiters.commits.append(
        CommitWait(group_of(b"b", sink=sink), [required_offset - 1], None, required_offset)
    )
    return sink


def test_bytes_are_counted_down_over_all_places():
    done, here, there = [], Waiters(), Waiters()
    wait = FetchWait(100, done.append)
    here.add_fetch(wait)
    there.add_fetch(wait)
    here.bytes_committed(60)
    assert done == []
    there.bytes_committed(40)
    assert done == [wait]
    assert here.fetches == there.fetches == {}
    here.bytes_committed(1000)
    assert done == [wait]


def test_leaving_is_silent_and_may_be_repeated():
    done, here = [], Waiters()
    wait = FetchWait(1, done.append)
    here.add_fetch(wait)
    wait.leave()
    wait.leave()
    here.bytes_committed(5)
    assert done == []
    assert wait.finished


def test_commits_end_in_the_order_of_offsets():
    waiters = Waiters()
    sinks = [commit(waiters, n) for n in (3, 5, 9)]
    waiters.offset_committed(2)
    assert [s.offsets for s in sinks] == [{}, {}, {}]
    waiters.offset_committed(5)
    assert [s.offsets for s in sinks] == [{0: 2}, {0: 4}, {}]
    waiters.offset_committed(9)
    assert sinks[2].offsets == {0: 8}


def test_a_leader_that_goes_tells_everyone():
    done, waiters = [], Waiters()
    fetches = [FetchWait(1, done.append) for _ in range(3)]
    for wait in fetches:
        waiters.add_fetch(wait)
    sinks = [commit(waiters, n) for n in (3, 5)]
    waiters.leader_gone(7)
    assert done == fetches
    assert [s.codes for s in sinks] == [{0: 7}, {0: 7}]
    assert sinks[0].results[0][2].outcome == OUTCOME_UNKNOWN
    assert not waiters.commits
    assert not waiters.fetches
