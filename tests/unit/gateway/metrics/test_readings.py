from types import SimpleNamespace

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.metrics.readings import gateway_readings


class Sessions:
    partitions, evictions = 12, 13

    def __len__(self):
        return 11


def test_every_value_is_that_of_its_part():
    budget = MemoryBudget(1 << 20)
    budget.used = 31
    readings = gateway_readings(
        SimpleNamespace(refused=1, descriptor_shortages=2, connections=[1, 2, 3]),
        SimpleNamespace(logins=4, failed=5, late=6),
        budget,
        Sessions(),
        SimpleNamespace(nbytes=21),
        SimpleNamespace(open_segment_files=7, groups_sent=8, fetches_sent=9),
    )
    found = {family.name: family.samples[0].value for family in readings.collect()}
    named = {name.removeprefix("highwater_gateway_"): value for name, value in found.items()}
    assert named == {
        "connections": 3,
        "refused_connections": 1,
        "logins": 4,
        "failed_logins": 5,
        "late_logins": 6,
        "request_bytes_held": 31,
        "produce_bytes_held": 21,
        "begun_bytes_held": 0,
        "reply_bytes_held": 0,
        "incremental_fetch_sessions": 11,
        "incremental_fetch_partitions_cached": 12,
        "incremental_fetch_session_evictions": 13,
        "begun_requests_given_up": 0,
        "descriptor_shortages": 2,
        "open_segment_files": 7,
        "append_groups_sent": 8,
        "fetches_sent": 9,
    }
