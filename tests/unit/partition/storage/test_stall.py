from highwater.partition.storage.stall import FAST_WRITE_S, FAST_WRITES_TO_RECOVER, StallMonitor


def test_a_stalled_directory_recovers_after_fast_writes_in_a_row() -> None:
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
