import pytest

from highwater.model.cluster import ClusterImage
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from highwater.partition.quota.group_limits import GroupLimits
from highwater.runtime.logging import silent_logger

SHOP = InstanceId("shop")


class Here:
    """The groups of this node."""

    count = 0

    def count_groups(self, instance):
        assert instance == SHOP
        return self.count

    def count_group_shards(self):
        return 50


def image(groups_max):
    state = InstanceState(instance=SHOP, groups_max=groups_max)
    free = InstanceState(instance=InstanceId("free"))
    return ClusterImage(revision=1, cluster_id="c", instances={SHOP: state, free.instance: free})


@pytest.fixture
def limits():
    made = GroupLimits(silent_logger())
    made.follow(image(5))
    return made


@pytest.fixture
def here():
    return Here()


def test_without_a_limit_nothing_is_counted_or_refused(limits, here):
    limits.follow(image(None))
    assert limits.report(here) == {}
    limits.take(SHOP, 100)
    assert not limits.refusal(SHOP, 100)
    assert not limits.refusal(InstanceId("free"), 100)


def test_before_any_news_the_node_goes_by_its_own_groups(limits):
    assert not limits.refusal(SHOP, 4)
    assert "shop has reached its limit of groups: it has 5 of 5" in limits.refusal(SHOP, 5)


def test_groups_elsewhere_count_and_what_is_made_here_since_the_report(limits, here):
    here.count = 2
    assert limits.report(here) == {SHOP: 2}
    limits.take(SHOP, 4)
    assert not limits.refusal(SHOP, 2)
    assert "it has 5 of 5" in limits.refusal(SHOP, 3)
    assert not limits.refusal(SHOP, 1), "groups that end here make room at once"
    limits.follow(image(6))
    assert not limits.refusal(SHOP, 3)


def test_a_total_that_is_older_than_the_report_is_no_negative_number(limits, here):
    here.count = 4
    limits.report(here)
    limits.take(SHOP, 1)
    assert not limits.refusal(SHOP, 4)
    assert limits.refusal(SHOP, 5)


def test_what_others_have_is_forgotten_with_the_limit(limits, here):
    limits.report(here)
    limits.take(SHOP, 5)
    assert limits.refusal(SHOP, 0)
    limits.follow(image(None))
    limits.follow(image(5))
    assert not limits.refusal(SHOP, 0)


def test_refusals_are_logged_once_a_report(here):
    events = []

    class Log:
        def info(self, event, **fields):
            events.append((event, fields))

    limits = GroupLimits(Log())
    limits.follow(image(0))
    assert limits.refusal(SHOP, 0)
    assert limits.refusal(SHOP, 0)
    limits.report(here)
    limits.report(here)
    assert events == [("new_groups_refused", {"instance": SHOP, "refused": 2, "limit": 0})]
