import pytest

from highwater.quota.core.policies.port import Sharing


def test_nodes_without_leaders_are_left_out_by_the_caller():
    with pytest.raises(AssertionError):
        Sharing(limit=1, leaders={1: 0})
