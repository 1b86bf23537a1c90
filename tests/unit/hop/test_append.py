"""Gathering: batches of a partition stay in order, groups are limited, nothing is sent twice."""

import pytest

from highwater.hop.append import (
    GROUP_BATCHES_MAX,
    GROUP_BYTES_MAX,
    OUTCOME_NOT_APPENDED,
    AppendGatherer,
    Failure,
    TransactionalWrite,
)
from tests.unit.hop.sinks import Owner, Sink, group_of, route


class Gathering:
    def __init__(self):
        self.due = []
        self.sent = []
        self.gatherer = AppendGatherer(self.due.append, self.sent.append)
        self.sink = Sink()
        self.count = 0

    def append(self, to, *, acks=1, nbytes=10, deadline_ms=100, transaction=None):
        self.count += 1
        self.gatherer.append(
            to, acks, b"%d" % self.count, nbytes, self.sink, self.count, deadline_ms, transaction
        )

    def turn(self):
        due = self.due[:]
        self.due.clear()
        for work in due:
            work()

    def contents(self):
        return [[(g.partition, g.acks, g.indexes) for g in groups] for groups in self.sent]


@pytest.fixture
def g():
    return Gathering()


def test_one_group_per_partition_and_turn(g):
    a, b = route(0), route(1)
    for to in (a, b, a, b, b):
        g.append(to)
    assert len(g.due) == 1
    assert g.gatherer.queued_bytes == 50
    g.turn()
    assert g.contents() == [[(0, 1, [1, 3]), (1, 1, [2, 4, 5])]]
    assert g.gatherer.queued_bytes == 0
    g.append(a)
    g.turn()
    assert g.contents()[1:] == [[(0, 1, [6])]]


def test_other_acks_open_another_group(g):
    a = route()
    for acks in (1, -1, -1, 1):
        g.append(a, acks=acks)
    g.turn()
    assert g.contents() == [[(0, 1, [1]), (0, -1, [2, 3]), (0, 1, [4])]]


def test_groups_have_limits_of_batches_and_bytes(g):
    a = route()
    for _ in range(GROUP_BATCHES_MAX + 1):
        g.append(a)
    g.append(a, nbytes=GROUP_BYTES_MAX)
    g.append(a)
    g.turn()
    (groups,) = g.sent
    assert [len(group.batches) for group in groups] == [GROUP_BATCHES_MAX, 2, 1]
    assert [i for group in groups for i in group.indexes] == list(range(1, g.count + 1))


def test_a_new_route_for_the_partition_goes_behind_the_old_one(g):
    old, new = route(epoch=3), route(epoch=4)
    g.append(old)
    g.append(new)
    g.append(new)
    g.turn()
    (groups,) = g.sent
    assert [(group.leader_epoch, group.indexes) for group in groups] == [(3, [1]), (4, [2, 3])]


def test_the_deadline_is_the_earliest(g):
    a = route()
    for deadline in (500, 300, 400):
        g.append(a, deadline_ms=deadline)
    g.turn()
    assert g.sent[0][0].deadline_ms == 300


def test_held_groups_grow_and_are_sent_on_release(g):
    a = route()
    g.gatherer.hold()
    g.append(a)
    g.turn()
    g.append(a)
    assert g.sent == []
    g.gatherer.release()
    assert g.contents() == [[(0, 1, [1, 2])]]
    g.gatherer.release()
    assert len(g.sent) == 1
    g.append(a)
    g.turn()
    assert g.contents()[1:] == [[(0, 1, [3])]]


def test_a_flush_due_at_the_beginning_of_a_hold_sends_nothing(g):
    a = route()
    g.append(a)
    g.gatherer.hold()
    g.turn()
    assert g.sent == []
    g.append(a)
    g.gatherer.release()
    assert g.contents() == [[(0, 1, [1, 2])]]
    g.append(a)
    g.turn()
    assert g.contents()[1:] == [[(0, 1, [3])]]


def test_take_empties_and_later_batches_open_new_groups(g):
    a = route()
    g.append(a)
    (first,) = g.gatherer.take()
    g.append(a)
    g.turn()
    assert first.indexes == [1]
    assert g.contents() == [[(0, 1, [2])]]


def test_completion_tells_every_sink_in_order():
    sink = Sink()
    made = group_of(b"a", b"b", b"c", sink=sink)
    failure = Failure(45)
    made.complete([7, -1, 8], {1: failure})
    assert made.completed
    assert sink.results == [(0, 7, None), (1, -1, failure), (2, 8, None)]


def test_a_batch_that_was_there_before_has_its_own_timestamp():
    class Timed(Sink):
        def append_done(self, index, base_offset, group, failure):
            super().append_done(index, base_offset, group, failure)
            times.append(group.log_append_time_ms)

    for failures in (None, {0: Failure(45)}):
        times = []
        made = group_of(b"a", b"b", b"c", sink=Timed())
        made.log_append_time_ms = 50
        made.known_timestamps = {1: 40}
        made.complete([7, 3, 8], failures)
        assert times == [50, 40, 50]
        assert made.log_append_time_ms == 50


def test_failing_a_group_fails_every_batch_of_it():
    sink = Sink()
    made = group_of(b"a", b"b", sink=sink)
    made.fail(Failure(6))
    assert sink.codes == {0: 6, 1: 6}
    assert sink.offsets == {0: -1, 1: -1}
    assert Failure(6).outcome == OUTCOME_NOT_APPENDED
    assert "6" in repr(Failure(6, "no"))


def test_a_wrong_number_of_results_is_a_bug():
    with pytest.raises(ValueError, match="argument"):
        group_of(b"a", b"b").complete([1])


@pytest.mark.parametrize("failed", [False, True])
def test_a_sink_that_raises_gets_its_error_and_others_their_results(failed):
    sink = Sink()
    group = group_of(b"a", b"b", b"c", sink=sink)
    sink.raises = {1}
    if failed:
        group.fail(Failure(6))
    else:
        group.complete([7, 8, 9])
    assert [index for index, _, _ in sink.results] == [0, 2]
    assert [str(error) for error in sink.errors] == ["a bug at 1"]


def test_a_group_knows_the_deadline_of_each_of_its_batches(g):
    a = route()
    for deadline_ms in (100, 100, 300, 50, 100, 50):
        g.append(a, deadline_ms=deadline_ms)
    g.turn()
    ((group,),) = g.sent
    assert group.deadline_ms == 50
    later = group.later_deadlines
    assert [later.get(n, 50) for n in range(6)] == [100, 100, 300, 50, 100, 50]


def test_pruning_removes_empty_groups(g):
    a, b = route(0), route(1)
    for to in (a, b, a):
        g.append(to)

    def take_out(group):
        if group.partition == 0:
            group.batches, group.sinks, group.indexes = [], [], []
            return 20
        return 0

    g.gatherer.prune(take_out)
    assert g.gatherer.queued_bytes == 10
    assert (a.open_group, b.open_group is None) == (None, False)
    g.append(a)
    g.turn()
    assert g.contents() == [[(1, 1, [2]), (0, 1, [4])]]


def test_a_whole_group_is_sent_again_behind_what_has_gathered(g):
    again = group_of(b"x", b"y", partition=0, sink=g.sink)
    again.completed = again.doubtful = True
    a, b = route(0), route(1)
    g.append(a)
    g.append(b)
    g.gatherer.append_group(a, again)
    g.append(a)
    g.append(b)
    assert g.gatherer.queued_bytes == 42
    g.turn()
    assert g.contents() == [[(0, 1, [1]), (1, 1, [2, 4]), (0, 1, [0, 1]), (0, 1, [3])]]
    assert (again.completed, again.doubtful) == (False, True)
    assert g.gatherer.queued_bytes == 0


def test_a_group_alone_is_sent_again_at_the_end_of_the_turn(g):
    g.gatherer.append_group(route(), group_of(b"x"))
    assert g.contents() == []
    g.turn()
    assert g.contents() == [[(0, 1, [0])]]


def test_groups_can_be_recalled(g):
    a, b = route(0), route(1)
    for to in (a, b):
        g.append(to)
        g.append(to, acks=-1)
    recalled = g.gatherer.recall(lambda group: group.partition == 0)
    assert [group.indexes for group in recalled] == [[1], [2]]
    assert [group.indexes for group in g.gatherer.groups] == [[3], [4]]
    g.append(a)
    g.append(b, acks=-1)
    g.turn()
    assert g.contents() == [[(1, 1, [3]), (1, -1, [4, 6]), (0, 1, [5])]]


def test_a_route_is_told_of_each_new_group(g):
    a = route()
    heard = []
    a.on_open = heard.append
    for acks in (1, 1, -1):
        g.append(a, acks=acks)
    a.on_open = None
    g.append(a)
    assert [group.indexes for group in heard] == [[1, 2], [3]]


@pytest.mark.parametrize("failure", [None, Failure(6)])
@pytest.mark.parametrize("takes", [True, False])
def test_the_owner_hears_each_result_first_and_may_take_it(takes, failure):
    told = []

    class Taker:
        def take_result(self, group, base_offsets, failures):
            told.append((group, base_offsets, failures, sink.results[:]))
            return takes

    due, sent, sink = [], [], Sink()
    gatherer = AppendGatherer(due.append, sent.extend, Taker())
    gatherer.append(route(), 1, b"x", 1, sink, 0, 100)
    due[0]()
    if failure is None:
        sent[0].complete([7])
    else:
        sent[0].fail(failure)
    offset = 7 if failure is None else -1
    assert told == [(sent[0], [offset], failure and {0: failure}, [])]
    assert sent[0].completed
    assert sink.results == ([] if takes else [(0, offset, failure)])


def test_a_group_that_is_sent_again_keeps_its_owner():
    told = []
    owner = Owner(lambda offsets, failures: told.append(offsets))
    due, sent = [], []
    gatherer = AppendGatherer(due.append, sent.extend, owner)
    gatherer.append(route(), 1, b"x", 1, Sink(), 0, 100)
    due.pop()()
    sent[0].fail(Failure(6))
    gatherer.append_group(route(), sent[0])
    assert not sent[0].completed
    sent[0].complete([7])
    assert told == [[-1], [7]]


def test_another_transaction_opens_another_group(g):
    a = route()
    payments, again = (TransactionalWrite("payments", True) for _ in range(2))
    writes = [None, payments, again, TransactionalWrite("payments", False), None, None]
    for write in writes:
        g.append(a, transaction=write)
    g.turn()
    assert g.contents() == [[(0, 1, [1]), (0, 1, [2, 3]), (0, 1, [4]), (0, 1, [5, 6])]]
    assert [group.transaction for group in g.sent[0]] == [None, payments, writes[3], None]
