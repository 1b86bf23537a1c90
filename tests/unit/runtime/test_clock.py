import time

from highwater.runtime.clock import SystemClock


def test_both_clocks_count_milliseconds():
    clock = SystemClock()
    before_ms = time.time() * 1000
    first = clock.monotonic_ms()
    assert before_ms - 1 <= clock.wall_ms() <= time.time() * 1000 + 1
    assert first <= clock.monotonic_ms() <= time.monotonic() * 1000 + 1
