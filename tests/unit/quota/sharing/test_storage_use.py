import pytest

from highwater.quota.core.limits import Limits
from highwater.quota.core.usage import InstanceUsage, NodeUsage
from highwater.quota.sharing.storage_use import UNSETTLED_TICKS_MAX, StorageUse
from tests.unit.quota.images import image, limited, topic

TICK_MS = 1_000
GRACE_MS = UNSETTLED_TICKS_MAX * TICK_MS
LIMIT = 1_000


def limits(leaders, storage=LIMIT):
    return Limits.of(image([topic("t", leaders)], limited(storage_bytes=storage)))


def usage(node, stored, partitions=1, *, exhausted=False):
    one = InstanceUsage(stored=stored, leader_partitions=partitions, storage_exhausted=exhausted)
    return NodeUsage(node_id=node, node_epoch=1, tick_ms=TICK_MS, instances={"default": one})


@pytest.fixture
def use():
    made = StorageUse(TICK_MS)
    made.set_limits(limits([1, 2]), 0)
    return made


def test_it_closes_at_the_limit_and_opens_below_98_percent(use):
    use.report(usage(1, 600), 0)
    assert not use.report(usage(2, 399), 0)
    assert use.left("default", 0) == 1
    assert use.report(usage(2, 400), 0)
    assert use.exhausted("default")
    assert list(use) == ["default"]
    assert use.left("default", 0) == 0
    assert not use.report(usage(2, 380), 0)
    assert use.exhausted("default")
    assert use.report(usage(2, 379), 0)
    assert not use.exhausted("default")


def test_a_raised_limit_opens_at_once_and_a_lowered_one_closes(use):
    use.report(usage(1, 600), 0)
    use.report(usage(2, 400), 0)
    use.set_limits(limits([1, 2], storage=1_001), 0)
    assert not use.exhausted("default")
    use.set_limits(limits([1, 2], storage=1_000), 0)
    assert use.exhausted("default")
    use.set_limits(limits([1, 2], storage=None), 0)
    assert not use.exhausted("default")


def test_while_a_leader_moves_nothing_closes_that_is_counted_twice(use):
    use.report(usage(1, 600), 0)
    use.report(usage(2, 300), 0)
    use.set_limits(limits([1, 1]), 100)
    assert not use.report(usage(1, 900, 2), 100)  # Node 2 has reported 300 of these, too.
    assert use.total("default") == 1_200
    assert use.left("default", 100) is None
    assert not use.report(usage(2, 0, 0), 200)
    assert use.left("default", 200) == 100


def test_a_dead_node_counts_until_others_lead(use):
    use.report(usage(1, 600), 0)
    use.report(usage(2, 400), 0)
    use.forget(2)
    use.report(usage(1, 600), 100)
    assert use.exhausted("default")
    use.set_limits(limits([1, 1]), 200)
    assert use.exhausted("default")  # Node 1 has not counted its new partition yet.
    use.report(usage(1, 1_000, 2), 300)
    assert use.exhausted("default")


def test_a_node_that_stops_after_its_leaders_have_moved_counts_no_more(use):
    use.report(usage(1, 600), 0)
    use.report(usage(2, 300), 0)
    use.set_limits(limits([1, 1]), 100)
    use.report(usage(1, 900, 2), 100)
    use.forget(2)
    assert use.total("default") == 900
    assert use.left("default", 100) == 100
    use.report(usage(1, 900, 2), GRACE_MS + 200)
    assert not use.exhausted("default")


def test_a_service_that_begins_learns_from_nodes_what_is_closed(use):
    use.report(usage(1, 590, exhausted=True), 0)
    assert use.exhausted("default")
    assert use.left("default", 0) is None
    use.report(usage(2, 395), 0)
    assert use.exhausted("default")  # 985 of 1000.
    use.report(usage(2, 300), 0)
    assert not use.exhausted("default")


def test_after_a_while_the_sum_counts_although_a_partition_is_offline(use):
    use.report(usage(1, 2_000), 0)
    assert not use.exhausted("default")
    use.report(usage(1, 2_000), GRACE_MS)
    assert use.exhausted("default")


def test_an_instance_without_a_limit_has_nothing_left_to_say(use):
    assert use.left("other", 0) is None
    assert use.total("other") == 0
    assert not use.exhausted("other")


def test_a_new_limit_closes_at_once_by_what_is_known(use):
    use.set_limits(limits([1, 2], storage=None), 0)
    use.report(usage(1, 600), 0)
    use.report(usage(2, 400), 0)
    use.set_limits(limits([1, 2], storage=900), 0)
    assert use.exhausted("default")


def test_while_a_partition_has_no_leader_nothing_opens(use):
    use.report(usage(1, 600), 0)
    use.report(usage(2, 400), 0)
    use.set_limits(limits([1, -1]), 100)
    use.report(usage(2, 0, 0), 100)
    assert use.exhausted("default")
    assert use.left("default", 100) is None
    use.report(usage(2, 0, 0), 100 + GRACE_MS)
    assert not use.exhausted("default")
