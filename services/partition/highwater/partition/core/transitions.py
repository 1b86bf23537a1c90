"""Which events may come in which role of a replica, and the method of `Replica` for each."""

import enum
from collections.abc import Mapping
from typing import Final

from highwater.partition.core import replica_events as on


class IllegalTransitionError(Exception):
    """An event or a call that cannot come in the present role: a bug of the caller."""


class Role(enum.Enum):
    """What a replica is at the moment; see `Replica`."""

    UNASSIGNED = "unassigned"
    """Its log is open; no image has given it a role yet."""
    FOLLOWER = "follower"
    LEADER = "leader"
    OFFLINE = "offline"
    """Its log has failed."""
    REMOVED = "removed"
    """The node has it no longer: another one may be opened on the same log, or the log goes."""


_ALWAYS: Final[dict[type, str]] = {
    on.IneligibleChanged: "_eligibility",
    on.NodeRegistered: "_registered",
    on.ReplicaRemoved: "_removed",
}
_IN_SERVICE: Final[dict[type, str]] = _ALWAYS | {
    on.PartitionChanged: "_changed",
    on.LogFailed: "_failed",
}
_LEADER_EVENTS: Final[dict[type, str]] = {
    on.LagChecked: "_lag",
    on.IsrDue: "_due",
    on.IsrAnswered: "_answered",
    on.IsrUnanswered: "_unanswered",
    on.HandOverAsked: "_resign",
    on.HandOverGivenUp: "_resume",
    on.DeleteRecordsAsked: "_delete_records",
}
_FOLLOWER_EVENTS: Final[dict[type, str]] = {
    on.Diverged: "_cut",
    on.OutOfRange: "_cut",
}
_LOG_EVENTS: Final[dict[type, str]] = {
    on.LogEndMoved: "_end_moved",
    on.WrittenLate: "_written_late",
    on.LogStartKept: "_start_kept",
}
_LATE_EVENTS: Final[dict[type, str]] = dict.fromkeys(
    (*_LEADER_EVENTS, *_FOLLOWER_EVENTS, *_LOG_EVENTS), "_too_late"
)

TRANSITIONS: Final[Mapping[Role, Mapping[type, str]]] = {
    Role.UNASSIGNED: _LATE_EVENTS | _IN_SERVICE,
    Role.FOLLOWER: _LATE_EVENTS
    | _IN_SERVICE
    | _LOG_EVENTS
    | _FOLLOWER_EVENTS
    | {on.LogTruncated: "_truncated"},
    Role.LEADER: _LATE_EVENTS | _IN_SERVICE | _LOG_EVENTS | _LEADER_EVENTS,
    Role.OFFLINE: _LATE_EVENTS
    | _ALWAYS
    | {on.PartitionChanged: "_note_leader", on.LogFailed: "_too_late"},
    Role.REMOVED: _LATE_EVENTS | dict.fromkeys(_IN_SERVICE, "_too_late"),
}
"""The method for each event that may come in a role; what is missing is a bug of the caller."""
