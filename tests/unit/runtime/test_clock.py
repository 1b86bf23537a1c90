import time
from pathlib import Path

from highwater.runtime.clock import SystemClock, boot_ms


def test_both_clocks_count_milliseconds():
    clock = SystemClock()
    before_ms = time.time() * 1000
    first = clock.monotonic_ms()
    assert before_ms - 1 <= clock.wall_ms() <= time.time() * 1000 + 1
    assert first <= clock.monotonic_ms() <= time.monotonic() * 1000 + 1


def test_the_clock_that_goes_on_while_the_machine_is_suspended():
    first = boot_ms()
    assert first <= boot_ms() <= first + 10_000
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(up_s * 1000 - first) < 10_000
