"""Static shares add up to the limit exactly, for any limit and leaders."""

from hypothesis import given
from hypothesis import strategies as st

from highwater.quota.core.policies.port import Sharing
from highwater.quota.core.policies.static import StaticPolicy

leaders = st.dictionaries(st.integers(1, 100), st.integers(1, 10_000), min_size=1, max_size=40)


@given(limit=st.integers(0, 10**12), leaders=leaders)
def test_sum_is_the_limit_and_each_share_is_fair(limit, leaders):
    shares = StaticPolicy().share(Sharing(limit=limit, leaders=leaders))
    assert sum(shares.values()) == limit
    total = sum(leaders.values())
    for node, count in leaders.items():
        assert abs(shares[node] - limit * count / total) <= 1 + limit * 1e-12


@given(limit=st.integers(0, 10**9), leaders=leaders)
def test_order_of_nodes_does_not_matter(limit, leaders):
    backwards = dict(reversed(leaders.items()))
    policy = StaticPolicy()
    assert policy.share(Sharing(limit=limit, leaders=leaders)) == policy.share(
        Sharing(limit=limit, leaders=backwards)
    )
