from highwater.http2.counters import ConnectionCounters
from highwater.rpc.statistics import ClosedConnections


def test_totals_count_the_living_and_the_dead_and_change_neither():
    past = ClosedConnections()
    past.totals.add(ConnectionCounters(bytes_sent=1))
    living = [ConnectionCounters(bytes_sent=10, resets_sent=1), ConnectionCounters(bytes_sent=100)]
    assert past.totals_with(living) == ConnectionCounters(bytes_sent=111, resets_sent=1)
    assert past.totals == ConnectionCounters(bytes_sent=1)
