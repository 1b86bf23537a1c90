from dataclasses import replace

import pytest

from highwater.model.errors import StaleNodeEpochError
from highwater.quota.core.allocation import Share
from highwater.quota.core.limits import Limits
from highwater.quota.core.policies.port import Demand
from highwater.quota.core.policies.static import StaticPolicy
from highwater.quota.sharing.ledger import Ledger
from tests.unit.quota.images import image, limited, topic, usage

TICK_MS = 1000


@pytest.fixture
def ledger():
    return Ledger(StaticPolicy(), tick_ms=TICK_MS, wall_ms=1_700_000_000_000)


def limits(leaders, **kinds):
    return Limits.of(image([topic("t", leaders)], limited(**kinds)))


def join(ledger, *nodes, now_ms=0):
    for node in nodes:
        ledger.report(usage(node), now_ms)


def told(ledger, node, now_ms):
    return {one.instance: one for one in ledger.allocations_for(node, now_ms).allocations}


def produce_rate(ledger, node, now_ms):
    return told(ledger, node, now_ms)["default"].produce.rate


def test_nothing_is_limited_without_limits(ledger):
    join(ledger, 1)
    answer = ledger.allocations_for(1, 0)
    assert answer.allocations == ()
    assert answer.expires_in_ms == 3 * TICK_MS


def test_shares_by_leaders_with_floor(ledger):
    assert ledger.set_limits(
        limits([1, 1, 2], produce_bytes_per_second=900, consume_bytes_per_second=300), 0
    )
    join(ledger, 1, 2, 3)
    assert told(ledger, 1, 0)["default"].produce == Share(rate=600, floor=600)
    assert told(ledger, 2, 0)["default"].consume == Share(rate=100, floor=100)
    assert told(ledger, 3, 0)["default"].produce == Share(rate=0, floor=0)


def test_who_serves_reads_without_leading_has_a_part_of_the_consume_limit(ledger):
    """KIP-392: consumers read from a follower in their rack."""
    ledger.set_limits(
        limits([1, 1, 2, 2], produce_bytes_per_second=400, consume_bytes_per_second=300), 0
    )
    join(ledger, 1, 2)
    assert [told(ledger, node, 0)["default"].consume.rate for node in (1, 2)] == [150, 150]
    # Somebody waits there: it has no share yet. The others are told their smaller ones at once.
    assert ledger.report(usage(3, held_consume=1), 100)
    assert told(ledger, 3, 100)["default"].consume == Share(rate=0, floor=0)
    join(ledger, 1, 2, now_ms=100)
    assert [told(ledger, node, 100)["default"].consume.rate for node in (1, 2)] == [100, 100]
    assert told(ledger, 1, 100)["default"].produce.rate == 200
    for now_ms, floor in ((1100, 0), (2100, 100)):
        for node in (1, 2, 3):
            ledger.report(usage(node, consumed=100 * (node == 3)), now_ms)
            share = told(ledger, node, now_ms)["default"].consume
            assert share == Share(rate=100, floor=floor if node == 3 else 100)
    # As long as it may be using its share nobody else gets that.
    ledger.forget(3, 0, 2_200)
    assert ledger.overcommits()[1].ratio == 1
    # Nobody has read there for a minute: it is forgotten.
    for now_ms in range(3_100, 70_000, 1_000):
        join(ledger, 1, 2, now_ms=now_ms)
        rates = [told(ledger, node, now_ms)["default"].consume.rate for node in (1, 2)]
    assert rates == [150, 150]


def test_a_direction_without_limit_stays_unlimited(ledger):
    ledger.set_limits(limits([1], produce_bytes_per_second=5), 0)
    join(ledger, 1)
    assert told(ledger, 1, 0)["default"].consume is None


def test_groups_are_told_where_they_are_limited(ledger):
    home = topic("__consumer_offsets", [1, 2], internal=True)
    states = limited(groups_max=9), limited("free", storage_bytes=1)
    ledger.set_limits(Limits.of(image([home], *states)), 0)
    ledger.report(replace(usage(1, groups=4), group_shards=1), 0)
    assert told(ledger, 1, 0)["default"].groups is None
    ledger.report(replace(usage(2, groups=3), group_shards=1), 0)
    both = told(ledger, 1, 0)
    assert (both["default"].groups, both["free"].groups) == (7, None)
    ledger.forget(2, 0, 0)
    assert told(ledger, 1, 0)["default"].groups is None


def test_generations_grow(ledger):
    join(ledger, 1, 2)
    generations = [ledger.allocations_for(node, 0).generation for node in (1, 2, 1)]
    assert generations == sorted(set(generations))
    later = Ledger(StaticPolicy(), tick_ms=TICK_MS, wall_ms=1_700_000_010_000)
    join(later, 1)
    assert later.allocations_for(1, 0).generation > generations[-1]


def test_equal_limits_change_nothing(ledger):
    assert ledger.set_limits(limits([1], produce_bytes_per_second=5), 0)
    assert not ledger.set_limits(limits([1], produce_bytes_per_second=5), 10)


def test_leader_change_takes_at_once_and_gives_a_tick_later(ledger):
    ledger.set_limits(limits([1, 2], produce_bytes_per_second=100), 0)
    join(ledger, 1, 2)
    assert [produce_rate(ledger, node, 5000) for node in (1, 2)] == [50, 50]
    ledger.set_limits(limits([2, 2], produce_bytes_per_second=100), 5100)
    assert [produce_rate(ledger, node, 5100) for node in (1, 2)] == [0, 50]
    assert [produce_rate(ledger, node, 6099) for node in (1, 2)] == [0, 50]
    assert [produce_rate(ledger, node, 6100) for node in (1, 2)] == [0, 100]


def test_shares_never_overspend_while_they_move(ledger):
    placements = [[1, 1, 1], [1, 2, 3], [3, 3, 3], [2, 1, 1], [3, 2, 3]]
    now_ms, rates = 0, {}
    join(ledger, 1, 2, 3)
    for leaders in placements:
        ledger.set_limits(limits(leaders, produce_bytes_per_second=1000), now_ms)
        for step_ms in (0, 300, 600, 999, 1000, 1500):
            for node in (1, 2, 3):
                rates[node] = produce_rate(ledger, node, now_ms + step_ms)
            if step_ms < TICK_MS or now_ms:
                assert sum(rates.values()) <= 1000
        assert sum(rates.values()) == 1000
        assert [one.ratio for one in ledger.overcommits()] == [1.0]
        now_ms += 10_000


def test_a_node_that_says_it_goes_by_its_share_frees_the_rest_at_once(ledger):
    ledger.set_limits(limits([1, 2], produce_bytes_per_second=100), 0)
    join(ledger, 1, 2)
    for node in (1, 2):
        told(ledger, node, 0)
    ledger.set_limits(limits([2, 2], produce_bytes_per_second=100), 5000)
    generation = ledger.allocations_for(1, 5000).generation
    assert produce_rate(ledger, 2, 5010) == 50
    assert not ledger.report(replace(usage(1), applied_generation=generation - 1), 5020)
    assert produce_rate(ledger, 2, 5020) == 50
    ledger.report(replace(usage(1), applied_generation=generation), 5030)
    assert produce_rate(ledger, 2, 5030) == 100


def test_a_service_that_begins_leaves_nodes_what_others_have_not_told(ledger):
    """Node 2 may have nine tenths of the limit, from a service that is gone."""
    ledger.set_limits(limits([1, 2], produce_bytes_per_second=100), 0)
    ledger.report(usage(1, produced=900, leader_partitions=1, produce_rate=10), 0)
    assert produce_rate(ledger, 1, 0) == 50  # Its static share.
    ledger.report(usage(2, produced=10, leader_partitions=1, produce_rate=90), 10)
    assert produce_rate(ledger, 2, 10) == 50


def test_storage_is_told_with_the_shares(ledger):
    ledger.set_limits(limits([1, 2], storage_bytes=100), 0)
    ledger.report(usage(1, stored=60, leader_partitions=1), 0)
    ledger.report(usage(2, stored=30, leader_partitions=1), 0)
    one = told(ledger, 1, 0)["default"]
    assert (one.storage_limit, one.storage_left, one.storage_exhausted) == (100, 10, False)
    assert ledger.report(usage(2, stored=40, leader_partitions=1), 500)  # Others should hear it.
    assert told(ledger, 1, 500)["default"].storage_exhausted


def test_a_stream_that_ended_is_forgotten_unless_the_node_has_another(ledger):
    ledger.report(usage(1, epoch=1), 0, stream=1)
    ledger.report(usage(1, epoch=1), 0, stream=2)
    ledger.forget(1, 1, 0)
    assert ledger.nodes == (1,)
    ledger.forget(1, 2, 0)
    assert ledger.nodes == ()


def test_older_incarnations_are_fenced(ledger):
    ledger.report(usage(1, epoch=2), 0)
    with pytest.raises(StaleNodeEpochError, match="epoch 1"):
        ledger.report(usage(1, epoch=1), 0)


class AllToTheHungriest:
    name = "hungriest"

    def share(self, sharing):
        best = max(sharing.leaders, key=lambda node: sharing.demands.get(node, Demand()).served)
        return {node: sharing.limit * (node == best) for node in sharing.leaders}


def test_policies_see_the_demand_and_floors_stay_static():
    ledger = Ledger(AllToTheHungriest(), tick_ms=TICK_MS, wall_ms=0)
    ledger.set_limits(limits([1, 2], produce_bytes_per_second=100), 0)
    ledger.report(usage(1, produced=5, leader_partitions=1), 0)
    ledger.report(usage(2, produced=50, leader_partitions=1), 0)
    told(ledger, 1, 3000)
    assert told(ledger, 1, 5000)["default"].produce == Share(rate=0, floor=50)
    assert told(ledger, 2, 5000)["default"].produce == Share(rate=100, floor=50)
