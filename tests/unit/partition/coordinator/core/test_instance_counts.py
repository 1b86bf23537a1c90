import pytest

from highwater.model.ids import InstanceId
from highwater.partition.coordinator.core.instance_counts import InstanceCounts

RED, BLUE = InstanceId("red"), InstanceId("blue")


def test_counts_go_up_and_down_and_end():
    counts = InstanceCounts()
    counts.add(RED, 1)
    counts.add(RED, 1)
    counts.add(BLUE, 1)
    counts.add(BLUE, 0)
    assert (counts[RED], counts[BLUE], counts[InstanceId("other")]) == (2, 1, 0)
    counts.add(BLUE, -1)
    assert dict(counts.items()) == {RED: 2}
    with pytest.raises(AssertionError):
        counts.add(BLUE, -1)
