import dataclasses
from typing import get_args

from highwater.partition.core import replica_events


def test_events_are_frozen_values_and_all_named_in_the_union() -> None:
    members = set(get_args(replica_events.Event))
    defined = {
        value
        for value in vars(replica_events).values()
        if isinstance(value, type) and value.__module__ == replica_events.__name__
    }
    assert members == defined
    for event in members:
        assert dataclasses.is_dataclass(event)
        assert event.__dataclass_params__.frozen
