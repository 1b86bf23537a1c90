"""Waterfill shares, for any limit, leaders and demands, and the order in which they take effect."""

from hypothesis import given
from hypothesis import strategies as st

from highwater.quota.core.policies.port import Demand, Sharing
from highwater.quota.core.policies.static import StaticPolicy
from highwater.quota.core.policies.waterfill import FLOOR_PER_MILLE, WaterfillPolicy

rates = st.floats(0, 1e12)


@st.composite
def sharings(draw):
    leaders = draw(
        st.dictionaries(st.integers(1, 60), st.integers(1, 5_000), min_size=1, max_size=30)
    )
    told = draw(st.sets(st.sampled_from(sorted(leaders))))
    demands = {node: Demand(served=draw(rates), held=draw(rates)) for node in sorted(told)}
    return Sharing(limit=draw(st.integers(0, 10**12)), leaders=leaders, demands=demands)


@given(sharings())
def test_shares_add_up_and_keep_the_floor(sharing):
    shares = WaterfillPolicy().share(sharing)
    fixed = StaticPolicy().share(sharing)
    assert shares.keys() == sharing.leaders.keys()
    assert sum(shares.values()) == sharing.limit
    for node, share in shares.items():
        assert share >= fixed[node] * FLOOR_PER_MILLE // 1000 >= 0


@given(sharings())
def test_everybody_gets_the_smaller_one_of_demand_and_static_share(sharing):
    """Within the byte or two that whole bytes cost (R15)."""
    shares = WaterfillPolicy().share(sharing)
    fixed = StaticPolicy().share(sharing)
    for node, share in shares.items():
        demand = sharing.demands.get(node)
        wanted = fixed[node] if demand is None else demand.served + demand.held
        assert share >= min(wanted, fixed[node]) - len(shares)


@given(sharings())
def test_services_that_hear_different_nodes_give_away_the_limit_together(sharing):
    """Decision 191: each node goes by the service that hears it."""
    half = {node for node in sharing.demands if node % 2}
    total = 0
    for heard in (half, set(sharing.demands) - half):
        demands = {node: sharing.demands[node] for node in heard}
        one = Sharing(limit=sharing.limit, leaders=sharing.leaders, demands=demands)
        shares = WaterfillPolicy().share(one)
        total += sum(shares[node] for node in heard)
    fixed = StaticPolicy().share(sharing)
    total += sum(fixed[node] for node in fixed if node not in sharing.demands)
    assert total <= sharing.limit + 2 * len(fixed)
