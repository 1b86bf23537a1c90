import pytest

from highwater.quota.core.policies.port import Demand
from highwater.quota.core.usage import InstanceUsage, NodeUsage


def test_bytes_of_a_tick_become_rates():
    usage = NodeUsage(
        node_id=1,
        node_epoch=1,
        tick_ms=500,
        instances={
            "i": InstanceUsage(
                produced=10, held_produce=5, consumed=3, held_consume=1, leader_partitions=1
            ),
            "elsewhere": InstanceUsage(),
            "read": InstanceUsage(consumed=3),
            "waited for": InstanceUsage(held_consume=1),
        },
    )
    assert usage.produce_demand("i") == Demand(served=20, held=10)
    assert usage.consume_demand("i") == Demand(served=pytest.approx(6), held=2)
    assert usage.consume_demand("read") == Demand(served=pytest.approx(6))
    assert usage.consume_demand("waited for") == Demand(held=2)
    assert usage.produce_demand("read") is None
    for other in ("other", "elsewhere"):
        assert usage.produce_demand(other) is None
        assert usage.consume_demand(other) is None
