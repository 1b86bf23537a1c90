"""Replicas that step back from their partitions because their logs are damaged (R13).

The last resort, for what `repairs` cannot heal in place. A replica steps back only after another one
in sync has proven that it lives. It is then offline, and says so: the controller lets another one
lead and takes it out of the ISR, in a new leader epoch. When the image says so, its log is set aside,
and an empty one takes its place, which fetches everything. What was set aside is removed when the new
one is in the ISR. If nobody took over after all, the replica goes on with the log that it has.

Single owner, on the node's loop; `Replicas` carries out what is decided here.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from highwater.model.cluster import PartitionState
from highwater.model.ids import TopicId
from highwater.partition.core.repair import counts_no_more, may_step_back, nobody_took_over
from highwater.partition.data_plane.replica import PartitionReplica

Key = tuple[TopicId, int]


class Next(enum.Enum):
    """What becomes of a replica that has stepped back."""

    WAIT = "wait"
    """The controller has not heard of it yet, or nothing can be done in this leader epoch."""
    GO_ON = "go on"
    """In service again, with its log."""
    REPLACE = "replace"
    """Its log is set aside, and an empty one begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SteppedBack:
    """A replica that is offline for its damage."""

    leader_epoch: int
    """No fetch that is counted in a later one was made for the log that it had."""
    usable: bool
    """Whether the replica could go on with that log."""


class Quarantine:
    """See the module."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _SteppedBack] = {}

    def __len__(self) -> int:
        """How many replicas are in it."""
        return len(self._waiting)

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def step_back(
        self, replica: PartitionReplica, state: PartitionState, alive: Iterable[int]
    ) -> bool:
        """Takes a replica out of service; False if it stays, or cannot be replaced yet.

        `alive` have proven since the damage was found that they live and are in sync.
        """
        key = (replica.topic_id, replica.partition)
        if key in self._waiting:
            return True
        if counts_no_more(state, replica.core.node):
            # The controller would change nothing, so no image would say that it was heard. The
            # replica comes here again when it has caught up, and is in the ISR; or, if it works
            # no more, is made anew when fetches of this leader epoch cannot vouch for it.
            if replica.failed:
                self._note(replica, max(state.leader_epoch, replica.leader_epoch), usable=False)
            return False
        if not may_step_back(replica.core.isr, replica.core.node, alive) and not replica.failed:
            return False
        self._note(replica, replica.leader_epoch, usable=not replica.failed)
        if not replica.failed:
            replica.fail()
        return True

    def _note(self, replica: PartitionReplica, leader_epoch: int, *, usable: bool) -> None:
        key = (replica.topic_id, replica.partition)
        self._waiting[key] = _SteppedBack(leader_epoch=leader_epoch, usable=usable)

    def next_for(
        self, replica: PartitionReplica, state: PartitionState, *, has_log: bool
    ) -> Next | None:
        """What the image means for a replica; None if it has not stepped back.

        If the leader epoch is still the same, the leader had taken the replica out of the ISR, for
        its lag, before the controller heard of the damage. Then a fetch of its that is late could
        vouch for a new log. So it goes on with this one, and steps back again when it is in the
        ISR; or it stays as it is until the next leader epoch, if this log cannot be used: it has
        failed since, or its former owner's last write is still under way.
        """
        found = self._waiting.get((replica.topic_id, replica.partition))
        if found is None:
            return None
        able = has_log and not replica.log.late_writer.writing
        if nobody_took_over(state, found.leader_epoch):
            return Next.GO_ON if able else Next.WAIT
        if not counts_no_more(state, replica.core.node):
            return Next.WAIT
        if state.leader_epoch > found.leader_epoch:
            return Next.REPLACE
        return Next.GO_ON if found.usable and able else Next.WAIT

    def forget(self, replica: PartitionReplica) -> None:
        """The replica is here no longer, or has another log."""
        self._waiting.pop((replica.topic_id, replica.partition), None)
