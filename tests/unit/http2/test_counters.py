from highwater.http2.counters import ConnectionCounters


def test_totals_add_up():
    total = ConnectionCounters(bytes_sent=1, stalls=2)
    total.add(ConnectionCounters(bytes_sent=10, resets_sent=3))
    assert total == ConnectionCounters(bytes_sent=11, stalls=2, resets_sent=3)
