"""The queue of one partition whose directory is stalled."""

from highwater.hop.append import OUTCOME_UNKNOWN, AppendGroup, Failure
from highwater.partition.data_plane.stalled_appends import StalledAppends
from highwater.partition.storage.log.stall import WAITING_BYTES_MAX, StallMonitor
from tests.unit.hop.sinks import Sink, group_of

IN_HAND = Failure(1, outcome=OUTCOME_UNKNOWN)
WAITING = Failure(2)


def group(nbytes: int = 10) -> tuple[AppendGroup, Sink]:
    sink = Sink()
    made = group_of(bytes(1), sink=sink)
    made.nbytes = nbytes
    return made, sink


def test_groups_are_taken_in_order_and_one_at_a_time() -> None:
    stall = StallMonitor()
    queue = StalledAppends(stall)
    (a, _), (b, _) = group(), group(5)
    assert queue.add(a)
    assert queue.add(b)
    assert (queue.take(), len(queue), stall.waiting_bytes) == (a, 2, 15)
    assert (queue.take(), len(queue), stall.waiting_bytes) == (b, 1, 5)
    assert queue.take() is None
    assert (len(queue), stall.waiting_bytes) == (0, 0)


def test_waiting_bytes_are_limited_over_all_partitions_of_a_directory() -> None:
    stall = StallMonitor()
    one, other = StalledAppends(stall), StalledAppends(stall)
    assert one.add(group(WAITING_BYTES_MAX + 1)[0]), "alone it may be as large as it likes"
    assert not other.add(group()[0])
    one.take()
    one.finish()
    assert other.add(group(WAITING_BYTES_MAX)[0])
    assert not one.add(group(1)[0])


def test_each_group_fails_by_its_state() -> None:
    stall = StallMonitor()
    queue = StalledAppends(stall)
    (a, first), (b, second) = group(), group()
    queue.add(a)
    queue.add(b)
    queue.take()
    queue.fail(IN_HAND, WAITING)
    assert (first.codes, second.codes) == ({0: 1}, {0: 2})
    assert (len(queue), stall.waiting_bytes) == (0, 0)
    queue.fail(IN_HAND, WAITING)
    assert len(first.results) == len(second.results) == 1


def test_a_completed_group_does_not_fail_later() -> None:
    queue = StalledAppends(StallMonitor())
    made, sink = group()
    queue.add(made)
    queue.take()
    made.complete([7])
    queue.fail(IN_HAND, WAITING)
    assert sink.offsets == {0: 7}
    assert sink.codes == {0: 0}
