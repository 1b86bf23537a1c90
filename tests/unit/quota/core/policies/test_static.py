import pytest

from highwater.quota.core.policies.port import Sharing
from highwater.quota.core.policies.static import StaticPolicy


@pytest.mark.parametrize(
    ("limit", "leaders", "shares"),
    [
        (900, {1: 1, 2: 1, 3: 1}, {1: 300, 2: 300, 3: 300}),
        (900, {1: 2, 2: 1}, {1: 600, 2: 300}),
        (100, {1: 1, 2: 1, 3: 1}, {1: 34, 2: 33, 3: 33}),
        (2, {3: 1, 1: 1, 2: 1}, {1: 1, 2: 1, 3: 0}),
        (0, {1: 5}, {1: 0}),
        (100, {}, {}),
    ],
)
def test_shares_follow_leaders_and_add_up(limit, leaders, shares):
    assert StaticPolicy().share(Sharing(limit=limit, leaders=leaders)) == shares
