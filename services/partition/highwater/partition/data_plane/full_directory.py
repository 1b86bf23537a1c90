"""A log directory whose disk is nearly full, as appends meet it."""

from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane.node_group import NodeGroup


class FullDirectory:
    """Refuses with KAFKA_STORAGE_ERROR, which clients and coordinators repeat: space may come back, or
    another node lead. Lives while the directory is in that state.
    """

    __slots__ = ("_failure", "nothing_passes")

    def __init__(self, message: str, *, nothing_passes: bool) -> None:
        """`nothing_passes`: also nothing of the node itself."""
        self._failure = Failure(ErrorCode.KAFKA_STORAGE_ERROR, message)
        self.nothing_passes = nothing_passes

    def refuses(self, group: AppendGroup) -> Failure | None:
        """Why the group is not appended; None if it may be."""
        if self.nothing_passes or not isinstance(group, NodeGroup):
            return self._failure
        return None
