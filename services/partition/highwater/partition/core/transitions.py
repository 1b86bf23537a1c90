"""Which events may come in which role of a replica, and the method of `Replica` for each."""

import enum
from collections.abc import Mapping
from typing import Final

from highwater.partition.core import replica_events as on


class Role(enum.Enum):
    """What a replica is at the moment; see `Replica`."""

    UNASSIGNED = "unassigned"
    """Its log is open; no image has given it a role yet."""
    FOLLOWER = "follower"
    LEADER = "leader"
    OFFLINE = "offline"
    """Its log has failed."""


_ROLE_EVENTS: Final[dict[type, str]] = {
    on.PartitionChanged: "_changed",
    on.IneligibleChanged: "_eligibility",
    on.LogFailed: "_failed",
}
_LEADER_EVENTS: Final[dict[type, str]] = {
    on.LagChecked: "_lag",
    on.IsrDue: "_due",
    on.IsrAnswered: "_answered",
    on.IsrUnanswered: "_unanswered",
}
_FOLLOWER_EVENTS: Final[dict[type, str]] = {
    on.Diverged: "_diverged",
    on.OutOfRange: "_out_of_range",
}
_LATE_EVENTS: Final[dict[type, str]] = dict.fromkeys(
    (*_LEADER_EVENTS, *_FOLLOWER_EVENTS), "_too_late"
)

TRANSITIONS: Final[Mapping[Role, Mapping[type, str]]] = {
    Role.UNASSIGNED: _LATE_EVENTS | _ROLE_EVENTS,
    Role.FOLLOWER: _LATE_EVENTS | _ROLE_EVENTS | _FOLLOWER_EVENTS | {on.LogTruncated: "_truncated"},
    Role.LEADER: _LATE_EVENTS | _ROLE_EVENTS | _LEADER_EVENTS,
    Role.OFFLINE: _LATE_EVENTS
    | {
        on.PartitionChanged: "_assigned_in_vain",
        on.IneligibleChanged: "_eligibility",
        on.LogFailed: "_too_late",
    },
}
"""The method for each event that may come in a role; what is missing is a bug of the caller."""
