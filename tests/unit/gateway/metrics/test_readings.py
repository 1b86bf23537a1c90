"""The single values of a scrape are those of the gateway's parts."""

from types import SimpleNamespace

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.metrics.readings import gateway_readings


class Sessions(SimpleNamespace):
    def __len__(self):
        return 6


def test_each_value_is_read_from_its_part_at_the_scrape():
    arrivals = SimpleNamespace(refused=1, delayed=15, waiting={1, 2})
    newcomers = SimpleNamespace(refused=1, failed_handshakes=14, arrivals=arrivals)
    listener = SimpleNamespace(connections=set(), descriptor_shortages=3, newcomers=newcomers)
    budget = MemoryBudget(1 << 20)
    readings = gateway_readings(
        listener=listener,
        gate=SimpleNamespace(logins=4, failed=5, late=1),
        budget=budget,
        held=SimpleNamespace(nbytes=7),
        sessions=Sessions(partitions=8, evictions=9),
        links=SimpleNamespace(open_segment_files=10, groups_sent=11, fetches_sent=12),
    )
    listener.connections.add(1)
    budget.used = 13
    values = {
        sample.name.removeprefix("highwater_gateway_"): sample.value
        for family in readings.collect()
        for sample in family.samples
    }
    assert values == {
        "connections": 1,
        "refused_connections_total": 2,
        "delayed_connections_total": 15,
        "waiting_connections": 2,
        "descriptor_shortages_total": 3,
        "failed_handshakes_total": 14,
        "logins_total": 4,
        "failed_logins_total": 5,
        "late_logins_total": 1,
        "request_bytes_held": 13,
        "begun_bytes_held": 0,
        "reply_bytes_held": 0,
        "begun_requests_given_up_total": 0,
        "produce_bytes_held": 7,
        "incremental_fetch_sessions": 6,
        "incremental_fetch_partitions_cached": 8,
        "incremental_fetch_session_evictions_total": 9,
        "open_segment_files": 10,
        "append_groups_sent_total": 11,
        "fetches_sent_total": 12,
    }
