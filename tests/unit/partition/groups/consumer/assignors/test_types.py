from dataclasses import FrozenInstanceError

import pytest

from tests.unit.partition.groups.consumer.assignors.groups import member, topic


@pytest.mark.parametrize(
    ("one", "attribute"), [(member("m", "a"), "rack_id"), (topic("a", 1), "name")]
)
def test_what_assignors_are_given_is_a_value(one, attribute):
    with pytest.raises(FrozenInstanceError):
        setattr(one, attribute, "x")
    assert member("m", "a", "b") == member("m", "b", "a")
    assert len({topic("a", 2, "x", "y"), topic("a", 2, "x", "y")}) == 1
