from highwater.partition.storage.log.stall import (
    FAST_WRITE_S,
    FAST_WRITES_TO_RECOVER,
    WAITING_BYTES_MAX,
    StallMonitor,
)


def test_consecutive_fast_writes_end_a_stall() -> None:
    monitor = StallMonitor()
    assert not monitor.stalled
    monitor.slow_write()
    monitor.slow_write()
    assert (monitor.stalled, monitor.stalls) == (True, 1)
    for _ in range(FAST_WRITES_TO_RECOVER - 1):
        monitor.written(0.0)
    monitor.written(FAST_WRITE_S)
    for _ in range(FAST_WRITES_TO_RECOVER - 1):
        monitor.written(0.0)
    assert monitor.stalled
    monitor.written(0.0)
    assert not monitor.stalled
    monitor.slow_write()
    assert monitor.stalls == 2


def test_waiting_bytes_are_counted_and_limited() -> None:
    monitor = StallMonitor()
    assert monitor.admit(WAITING_BYTES_MAX * 2), "whatever its size, if it is alone"
    assert not monitor.admit(1)
    monitor.leave(WAITING_BYTES_MAX * 2)
    assert monitor.admit(1)
    assert monitor.admit(WAITING_BYTES_MAX - 1)
    assert not monitor.admit(1)
