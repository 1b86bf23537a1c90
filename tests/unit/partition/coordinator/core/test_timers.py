from highwater.partition.coordinator.core.timers import Timer, TimerHeap
from highwater.partition.coordinator.core.values import Moment


def at(ms: int) -> Moment:
    return Moment(ms, ms)


def ringing(heap: TimerHeap) -> tuple[Timer, list[int]]:
    rung: list[int] = []
    return Timer(lambda now: rung.append(now.now_ms)), rung


def test_runs_once_at_its_deadline():
    heap = TimerHeap()
    timer, rung = ringing(heap)
    heap.set(timer, 10)
    assert heap.next_deadline_ms() == 10
    heap.expire(at(9))
    assert rung == []
    heap.expire(at(10))
    heap.expire(at(20))
    assert rung == [10]
    assert len(heap) == 0
    assert heap.next_deadline_ms() is None


def test_moving_later_costs_no_entry_and_moving_earlier_works():
    heap = TimerHeap()
    timer, rung = ringing(heap)
    heap.set(timer, 10)
    for deadline in range(11, 1_000):
        heap.set(timer, deadline)
    assert len(heap._heap) == 1
    heap.expire(at(10))
    assert rung == []
    assert heap.next_deadline_ms() == 999
    heap.set(timer, 500)
    heap.expire(at(500))
    heap.expire(at(2_000))
    assert rung == [500]


def test_cancelled_timer_does_not_run_and_can_be_set_again():
    heap = TimerHeap()
    timer, rung = ringing(heap)
    heap.set(timer, 10)
    heap.cancel(timer)
    heap.cancel(timer)
    heap.expire(at(10))
    heap.set(timer, 15)
    heap.expire(at(15))
    assert rung == [15]


def test_one_action_may_cancel_or_move_another_that_is_due():
    heap = TimerHeap()
    victim, rung = ringing(heap)
    moved, moved_rung = ringing(heap)

    def first(now: Moment) -> None:
        heap.cancel(victim)
        heap.set(moved, 99)

    heap.set(Timer(first), 1)
    heap.set(victim, 2)
    heap.set(moved, 3)
    heap.expire(at(5))
    assert rung == moved_rung == []
    heap.expire(at(99))
    assert moved_rung == [99]


def test_timer_that_sets_itself_for_now_waits_for_the_next_call():
    heap = TimerHeap()
    rung: list[int] = []

    def again(now: Moment) -> None:
        rung.append(now.now_ms)
        heap.set(timer, now.now_ms)

    timer = Timer(again)
    heap.set(timer, 1)
    heap.expire(at(1))
    assert rung == [1]
    heap.expire(at(1))
    assert rung == [1, 1]


def test_dead_entries_do_not_pile_up():
    heap = TimerHeap()
    keeper, rung = ringing(heap)
    heap.set(keeper, 50_000)
    for n in range(10_000):
        timer = Timer(lambda now: None)
        heap.set(timer, 100_000 + n)
        heap.cancel(timer)
    assert len(heap._heap) < 1_000
    heap.expire(at(200_000))
    assert rung == [200_000]
