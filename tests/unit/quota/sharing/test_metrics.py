from prometheus_client import CollectorRegistry

from highwater.quota.core.limits import Limits
from highwater.quota.core.policies.static import StaticPolicy
from highwater.quota.sharing.ledger import Ledger
from highwater.quota.sharing.metrics import QuotaMetrics
from tests.unit.quota.images import image, limited, topic, usage


def test_the_ledger_is_read_when_scraped():
    registry = CollectorRegistry()
    ledger = Ledger(StaticPolicy(), tick_ms=1000, wall_ms=0)
    QuotaMetrics(registry, ledger)
    value = registry.get_sample_value
    assert value("highwater_quota_limited_instances") == 0
    limits = limited(produce_bytes_per_second=10, storage_bytes=5)
    ledger.set_limits(Limits.of(image([topic("t", [1])], limits)), 0)
    ledger.report(usage(1, stored=5, leader_partitions=1), 0)
    ledger.allocations_for(1, 0)
    assert value("highwater_quota_limited_instances") == 1
    assert value("highwater_quota_storage_exhausted_instances") == 1
    labels = {"instance": "default", "direction": "produce"}
    assert value("highwater_quota_overcommit_ratio", labels) == 1.0
    labels["direction"] = "consume"
    assert value("highwater_quota_overcommit_ratio", labels) is None
