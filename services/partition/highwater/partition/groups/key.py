"""The key of a group."""

from typing import NamedTuple

from highwater.model.ids import InstanceId


class GroupKey(NamedTuple):
    """A group id is unique within its instance."""

    instance: InstanceId
    group_id: str
