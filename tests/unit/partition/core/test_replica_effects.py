import dataclasses
from typing import get_args

from highwater.partition.core import replica_effects


def test_effects_are_frozen_values_and_all_named_in_the_union() -> None:
    members = set(get_args(replica_effects.Effect))
    defined = {
        value
        for value in vars(replica_effects).values()
        if isinstance(value, type) and value.__module__ == replica_effects.__name__
    }
    assert members == defined
    for effect in members:
        assert dataclasses.is_dataclass(effect)
        assert effect.__dataclass_params__.frozen
