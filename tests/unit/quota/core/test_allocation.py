import pytest

from highwater.quota.core.allocation import Allocation, Share


def test_an_allocation_is_unlimited_unless_it_says_so():
    allocation = Allocation(instance="i", produce=Share(rate=1, floor=2), consume=None)
    assert allocation.storage_limit is None
    assert not allocation.storage_exhausted
    with pytest.raises(AttributeError):
        allocation.produce = None
