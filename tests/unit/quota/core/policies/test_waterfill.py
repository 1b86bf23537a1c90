import pytest

from highwater.quota.core.policies.port import Demand, Sharing
from highwater.quota.core.policies.waterfill import WaterfillPolicy, fill

LIMIT = 1_000


def share(leaders, demands, limit=LIMIT):
    told = {node: Demand(served=rate) for node, rate in demands.items()}
    return WaterfillPolicy().share(Sharing(limit=limit, leaders=leaders, demands=told))


def test_a_hot_node_gets_all_but_the_floors():
    assert share({1: 1, 2: 1}, {1: 5_000, 2: 0}) == {1: 985, 2: 15}


def test_what_nobody_wants_goes_by_weight():
    assert share({1: 3, 2: 1}, {1: 100, 2: 100}) == {1: 700, 2: 300}


def test_a_small_demand_is_met_in_full_beside_a_large_one():
    assert share({1: 1, 2: 1, 3: 1}, {1: 5_000, 2: 200, 3: 300}) == {1: 500, 2: 200, 3: 300}


def test_large_demands_get_their_weight():
    assert share({1: 3, 2: 1}, {1: 5_000, 2: 5_000}) == {1: 750, 2: 250}


def test_held_bytes_are_demand_and_most_of_the_rest_goes_where_somebody_waits():
    demands = {1: Demand(served=100, held=700), 2: Demand(served=100)}
    given = WaterfillPolicy().share(Sharing(limit=LIMIT, leaders={1: 1, 2: 1}, demands=demands))
    assert given == {1: 890, 2: 110}


def test_a_node_that_has_not_reported_keeps_its_static_share():
    assert share({1: 1, 2: 1, 3: 2}, {1: 5_000}) == {1: 250, 2: 250, 3: 500}


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_tiny_limits(limit):
    assert sum(share({1: 1, 2: 1, 3: 1}, {1: 9}, limit=limit).values()) == limit


def test_without_leaders_there_is_nobody_to_share():
    assert share({}, {}) == {}


def test_fill_gives_nobody_more_than_he_lacks():
    assert fill(100, {1: 10, 2: 80}, {1: 1, 2: 1}) == {1: 10, 2: 80}
    assert fill(100, {1: 10, 2: 200, 3: 60}, {1: 1, 2: 1, 3: 1}) == {1: 10, 2: 45, 3: 45}
