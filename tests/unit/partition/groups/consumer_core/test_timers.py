from __future__ import annotations

from highwater.partition.coordinator.core.timers import TimerHeap
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer_core.timers import Deadline, MemberTimers
from tests.unit.partition.groups.dialogue import key


def test_deadlines_are_set_moved_and_forgotten() -> None:
    heap, fired = TimerHeap(), []
    timers = MemberTimers(heap)

    def at(name: str, which: Deadline, deadline_ms: int) -> None:
        timers.set(key("g"), "m", which, deadline_ms, lambda _: fired.append(name))

    at("early", Deadline.SESSION, 5)
    at("session", Deadline.SESSION, 10)
    at("join", Deadline.JOIN, 8)
    at("sync", Deadline.SYNC, 8)
    timers.cancel(key("g"), "m", Deadline.SYNC)
    timers.cancel(key("g"), "other", Deadline.SYNC)
    heap.expire(Moment(8, 0))
    assert fired == ["join"]
    assert timers.is_set(key("g"), "m", Deadline.SESSION)
    assert not timers.is_set(key("g"), "m", Deadline.JOIN)
    assert not timers.is_set(key("g"), "other", Deadline.JOIN)
    timers.forget(key("g"), "m")
    heap.expire(Moment(20, 0))
    assert fired == ["join"]
    assert len(heap) == 0
