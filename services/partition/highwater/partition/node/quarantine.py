"""Takes replicas with damaged logs out of service and replaces their logs (R13).

This is the last resort, for damage that `repairs` cannot heal in place. A replica steps back only
after another in-sync replica has proven that it lives. It then reports itself offline, and the
controller elects another leader and removes it from the ISR, in a new leader epoch. When the image
shows this, the log is set aside, and an empty log in its place fetches everything. The old log is
removed when the new one is in the ISR. If no replica took over, the old log goes back into service.

Used on the node's loop only; `Replicas` carries out what is decided here.
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
    """What happens to a replica that has stepped back."""

    WAIT = "wait"
    """The controller does not know of it yet, or nothing can be done in this leader epoch."""
    GO_ON = "go on"
    """In service again, with its log."""
    REPLACE = "replace"
    """Its log is set aside; it begins with an empty one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SteppedBack:
    """A replica that is offline because of damage."""

    leader_epoch: int
    """In later epochs, no fetch on behalf of the old log is counted."""
    usable: bool
    """Whether the replica could serve with the old log again."""


class Quarantine:
    """See the module."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _SteppedBack] = {}

    def __len__(self) -> int:
        """How many replicas have stepped back."""
        return len(self._waiting)

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def step_back(
        self, replica: PartitionReplica, state: PartitionState, alive: Iterable[int]
    ) -> bool:
        """Takes a replica out of service; False if it stays in service or cannot be replaced yet.

        `alive`: nodes in sync that have proven, since the damage was found, that they live.
        """
        key = (replica.topic_id, replica.partition)
        if key in self._waiting:
            return True
        if counts_no_more(state, replica.core.node):
            # The replica is outside the ISR, so the controller would change nothing and no image
            # would confirm the report. A replica that works steps back after it is in the ISR
            # again. A failed one is replaced once no fetch of this leader epoch can count for it.
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

    def next_step(
        self, replica: PartitionReplica, state: PartitionState, *, has_log: bool
    ) -> Next | None:
        """What an image means for a replica; None if it has not stepped back.

        An unchanged leader epoch means that the leader had removed the replica from the ISR, for
        lag, before the controller knew of the damage. A late fetch of the old log could then count
        for a new one. So the replica serves with the old log and steps back again once it is in
        the ISR. If the old log cannot be used (it has failed, or an earlier owner's last write is
        unfinished), the replica waits for the next leader epoch.
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
        """The replica is no longer here, or has another log."""
        self._waiting.pop((replica.topic_id, replica.partition), None)
