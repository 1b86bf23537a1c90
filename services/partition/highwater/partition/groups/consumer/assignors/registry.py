"""The assignors that a member may ask for, in Kafka's default order."""

from collections.abc import Mapping
from typing import Final

from highwater.partition.groups.consumer.assignors.range import RangeAssignor
from highwater.partition.groups.consumer.assignors.types import Assignor
from highwater.partition.groups.consumer.assignors.uniform import UniformAssignor

_ALL: Final[tuple[Assignor, ...]] = (UniformAssignor(), RangeAssignor())

ASSIGNORS: Final[Mapping[str, Assignor]] = {assignor.name: assignor for assignor in _ALL}
"""By name; the first is the default (Kafka: group.consumer.assignors)."""
