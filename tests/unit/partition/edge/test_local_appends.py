"""Groups go through the plane as carriers, and can be taken back from it."""

import pytest

from highwater.hop.append import OUTCOME_NOT_APPENDED, OUTCOME_UNKNOWN, Failure
from highwater.hop.append_expiry import ANSWERED, not_sent, unknown
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    MAX_TIMESTAMP_AT,
    restamp_log_append_time,
)
from highwater.kafka.records.validation import validate_header
from highwater.partition.edge.local_appends import LocalAppends
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Sink, route


class Owner:
    """Leaves results to the groups."""

    def __init__(self):
        self.taken = []
        self.error = None

    def take_result(self, group, base_offsets, failures):
        self.taken.append(group)
        if self.error is not None:
            raise self.error
        return False


class World:
    def __init__(self):
        self.plane, self.due, self.owner, self.sink = [], [], Owner(), Sink()
        self.appends = LocalAppends(self.plane.extend, schedule=self.due.append, owner=self.owner)
        self.count = 0

    def send(self, to, *, acks=1, batch=None, deadline_ms=1000):
        batch = batch or make_batch()
        self.appends.gatherer.append(
            to, acks, batch, len(batch), self.sink, self.count, deadline_ms
        )
        self.count += 1

    def turn(self):
        due, self.due[:] = list(self.due), []
        for work in due:
            work()


@pytest.fixture
def w():
    return World()


def test_a_result_comes_back_with_all_that_the_plane_says(w):
    to = route()
    w.send(to), w.send(to)
    w.turn()
    (carrier,) = w.plane
    (group,) = w.appends.under_way()
    assert group is not carrier
    assert (group.attempted, carrier.batches) == (True, group.batches)
    assert (carrier.deadline_ms, carrier.nbytes) == (1000, group.nbytes)
    carrier.log_start_offset, carrier.log_append_time_ms, carrier.throttle_ms = 1, 2, 3
    carrier.known_timestamps = {0: 9}
    refused = Failure(ErrorCode.CORRUPT_MESSAGE)
    carrier.complete([7, -1], {1: refused})
    assert w.sink.results == [(0, 7, None), (1, -1, refused)]
    assert (group.log_start_offset, group.log_append_time_ms, group.throttle_ms) == (1, 2, 3)
    assert group.known_timestamps == {0: 9}
    assert w.owner.taken == [group]
    assert list(w.appends.under_way()) == []


def test_all_groups_of_a_turn_are_under_way_before_the_first_is_answered(w):
    seen = []

    def plane(carriers):
        for carrier in carriers:
            seen.append(len(list(w.appends.under_way())))
            carrier.complete([0])

    w.appends = LocalAppends(plane, schedule=w.due.append, owner=w.owner)
    w.send(route(0)), w.send(route(1)), w.send(route(2))
    w.turn()
    assert seen == [3, 2, 1]
    assert w.sink.offsets == {0: 0, 1: 0, 2: 0}


def test_a_group_in_the_plane_is_taken_back_and_its_result_ignored(w):
    first, second = route(0), route(1)
    w.send(first), w.send(second)
    w.turn()
    w.send(first)
    under_way = list(w.appends.under_way())
    recalled = w.appends.recall(lambda group: group.partition == 0)
    assert recalled == [under_way[0], under_way[2]]
    assert [group.attempted for group in recalled] == [True, False]
    assert list(w.appends.under_way()) == [under_way[1]]
    w.plane[0].complete([5])
    assert w.sink.results == []
    w.turn()
    assert len(w.plane) == 2, "what was gathered does not leave any more"
    w.plane[1].complete([6])
    assert w.sink.offsets == {1: 6}
    # The group itself is free to go elsewhere.
    recalled[0].complete([8])
    assert w.sink.offsets == {1: 6, 0: 8}


def test_what_may_go_to_another_leader_is_as_the_client_sent_it(w):
    sent = bytes(make_batch())
    for partition in range(3):
        w.send(route(partition))
    w.turn()
    groups = list(w.appends.under_way())
    for carrier in w.plane:
        restamp_log_append_time(carrier.batches[0], 0, len(sent), 5_000)
    stamped = bytes(w.plane[0].batches[0])
    assert stamped != sent
    w.plane[0].fail(unknown("the leader is another one"))
    w.plane[1].fail(not_sent("refused"))
    w.appends.recall(lambda group: group.partition == 2)
    for group, copied in zip(groups, (True, False, True), strict=True):
        (batch,) = group.batches
        assert (batch is not w.plane[group.partition].batches[0]) == copied
        if copied:
            assert validate_header(batch, 0, len(batch)) is None
            assert (
                bytes(batch[ATTRIBUTES_AT:MAX_TIMESTAMP_AT]) == sent[ATTRIBUTES_AT:MAX_TIMESTAMP_AT]
            )
    assert bytes(w.plane[0].batches[0]) == stamped, "the writer thread may still read it"


def test_batches_that_the_plane_keeps_too_long_are_answered_once(w):
    to = route()
    w.send(to, deadline_ms=1000), w.send(to, deadline_ms=2000)
    w.turn()
    w.appends.expire(999)
    assert w.sink.results == []
    w.appends.expire(1000)
    assert w.sink.codes == {0: ErrorCode.REQUEST_TIMED_OUT}
    (group,) = w.appends.under_way()
    assert group.sinks[0] is ANSWERED
    w.plane[0].complete([3, 4])
    assert w.sink.results[1:] == [(1, 4, None)]


def test_the_end_answers_everything(w):
    w.send(route(0))
    w.turn()
    w.send(route(1))
    w.appends.fail_all("the end")
    failures = {index: failure for index, _, failure in w.sink.results}
    assert failures[0].outcome == OUTCOME_UNKNOWN
    assert failures[1].outcome == OUTCOME_NOT_APPENDED
    w.plane[0].complete([3])
    w.turn()
    assert len(w.sink.results) == 2


def test_a_bug_of_the_owner_does_not_reach_the_plane(w):
    w.owner.error = RuntimeError("a bug")
    w.send(route())
    w.turn()
    w.plane[0].complete([3])
    with pytest.raises(RuntimeError, match="a bug"):
        w.turn()
