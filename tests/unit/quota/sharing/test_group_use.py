import pytest

from highwater.quota.core.usage import InstanceUsage, NodeUsage
from highwater.quota.sharing.group_use import UNSETTLED_TICKS_MAX, GroupUse

TICK_MS = 1_000
GRACE_MS = UNSETTLED_TICKS_MAX * TICK_MS


def usage(node, shards, **groups):
    instances = {name: InstanceUsage(groups=count) for name, count in groups.items()}
    return NodeUsage(
        node_id=node, node_epoch=1, tick_ms=TICK_MS, instances=instances, group_shards=shards
    )


@pytest.fixture
def use():
    made = GroupUse(TICK_MS)
    made.set_partitions(4, 0)
    made.report(usage(1, 3, shop=5, other=1), 0)
    made.report(usage(2, 1, shop=2), 0)
    return made


def test_the_sum_is_over_nodes_and_the_last_reports(use):
    assert use.total("shop", 0) == 7
    use.report(usage(2, 1, shop=4), 10)
    assert use.total("shop", 10) == 9
    use.report(usage(1, 3), 10)
    assert use.total("shop", 10) == 4
    assert use.total("other", 10) == 0


def test_it_is_not_told_while_a_partition_is_counted_by_nobody_or_by_two(use):
    use.report(usage(1, 2, shop=3), 100)
    assert use.total("shop", 100) is None
    use.report(usage(2, 3, shop=4), 200)
    assert use.total("shop", 200) is None
    use.report(usage(2, 2, shop=4), 300)
    assert use.total("shop", 300) == 7


def test_after_some_ticks_it_is_told_anyway(use):
    use.set_partitions(5, 100)
    use.report(usage(1, 3, shop=6), 200)  # Still unsettled since the first moment.
    assert use.total("shop", 99 + GRACE_MS) is None
    assert use.total("shop", 100 + GRACE_MS) == 8


def test_a_new_service_knows_nothing_before_all_nodes_have_told():
    use = GroupUse(TICK_MS)
    use.set_partitions(2, 0)
    use.report(usage(1, 1, shop=1), 0)
    assert use.total("shop", 0) is None
    use.report(usage(2, 1), 0)
    assert use.total("shop", 0) == 1


def test_what_a_lost_node_had_is_taken_over_by_others(use):
    use.forget(2, 100)
    use.forget(2, 100)
    assert use.total("shop", 100) is None
    use.report(usage(1, 4, shop=7, other=1), 200)
    assert use.total("shop", 200) == 7
