"""What a node knows of a fetch set: which of its partitions a fetch has to read.

A partition without news, whose answer would be that of the last fetch, is not read again, so a fetch
costs as much as what has happened since the last one. Hot path.

State of a partition   what happens                                       next
    ready              read: no error, nothing below the committed end    waits, once it is answered
    ready              read: records or an error                          ready
    waits                  the high watermark or the last stable offset      ready
                           moves, the leader or the log start changes, the
                           client asks in another way
    any                the client forgets it                              gone
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from highwater.hop.fetch import READ_COMMITTED, FetchPartition, FetchSet, FetchWork
from highwater.model.ids import TopicId
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.data_plane.waiters import FetchWait, Waiters

FETCHES_PER_SWEEP: Final = 64
"""Each that many fetches of a set read all its partitions: nothing tells of a log start offset that
retention has moved."""

_in_order = attrgetter("order")


class SetMember(FetchWait):
    """One partition of a set: a wait at its replica that does not end."""

    __slots__ = ("at", "note", "order", "place")

    def __init__(self, owner: "ServedSet", place: int, order: int) -> None:
        super().__init__(0, owner.moved, owner.look, read_committed=owner.read_committed)
        self.note = owner.note
        self.place = place
        self.order = order
        """Lower ones are read first."""
        self.at: Waiters | None = None

    def leave(self) -> None:
        """Stays: the owner's fetch has a wait of its own, or none waits."""

    def high_watermark_moved(self) -> None:
        """The next answer has it; no fetch ends for it."""
        self.note(self)

    def stand_at(self, waiters: Waiters | None) -> None:
        """Waits at this replica, and at no other one; None if there is none."""
        if self.at is not waiters:
            if self.at is not None:
                self.at.fetches.pop(self, None)
            if waiters is not None:
                waiters.fetches[self] = None
            self.at = waiters


class ServedSet:
    """The node's end of a `FetchSet`. Its owner is the loop, as of all data of the plane."""

    __slots__ = (
        "_fetch_set",
        "_fetches",
        "_members",
        "_order",
        "_read",
        "_ready",
        "_reported",
        "read_committed",
        "wait",
    )

    def __init__(self, fetch_set: FetchSet) -> None:
        self._fetch_set = fetch_set
        self._fetches = 0
        self._members: dict[int, SetMember] = {}
        self._ready: dict[int, SetMember] = {}
        self._read: list[SetMember] = []
        """Those of the last read, in its order."""
        self._reported: list[int] = []
        """The places in the last answer."""
        self._order = 0
        self.read_committed = False
        """Whether the last fetch was: only what is before last stable offsets is readable."""
        self.wait: FetchWait | None = None
        """The fetch of the set that waits."""

    @staticmethod
    def begin(fetch_set: FetchSet, isolation_level: int, by: object) -> "ServedSet":
        """The set as a fetch asks for it now."""
        changes = fetch_set.changes(by)
        served = fetch_set.at_node
        earlier = served
        if changes.anew or not isinstance(served, ServedSet):
            if isinstance(served, ServedSet):
                served.end()
            served = fetch_set.at_node = ServedSet(fetch_set)
        members, ready = served._members, served._ready
        served._read_at(isolation_level)
        for place in changes.dropped:
            gone = members.pop(place, None)
            if gone is not None:
                gone.stand_at(None)
                ready.pop(place, None)
        for place in changes.places:
            member = members.get(place)
            if member is None:
                served._order += 1
                member = members[place] = SetMember(served, place, served._order)
            ready[place] = member
        if changes.missed:
            for place in served._reported:
                if place in members:
                    ready[place] = members[place]
        served._reported = []
        served._fetches += 1
        if served._fetches % FETCHES_PER_SWEEP == 0:
            ready.update(members)
        if isinstance(earlier, ServedSet):
            earlier.end_wait()
        return served

    def _read_at(self, isolation_level: int) -> None:
        """Reads all again if that is another one: it decides which records are news."""
        read_committed = isolation_level == READ_COMMITTED
        if self.read_committed is not read_committed:
            self.read_committed = read_committed
            for member in self._members.values():
                member.read_committed = read_committed
            self._ready.update(self._members)

    def end_wait(self) -> None:
        """Answers the set's fetch that waits, if there is one: of a set, one waits at a time."""
        wait = self.wait
        if wait is not None and not wait.finished:
            wait.leave()
            wait.finish(wait)

    @property
    def asks(self) -> bool:
        """True if there is any partition."""
        return bool(self._members)

    def end(self) -> None:
        """The session needs this node no more."""
        for member in self._members.values():
            member.stand_at(None)
        self._members.clear()
        self._ready.clear()
        self._fetch_set.at_node = None

    def to_read(
        self, replicas: Mapping[tuple[TopicId, int], PartitionReplica]
    ) -> list[FetchPartition]:
        """What to read now: first the partitions whose records were sent longest ago (Kafka:
        `FetchContext.IncrementalFetchContext`). From now on news of their replicas are noticed.
        """
        members = list(self._ready.values())
        if len(members) > 1:
            members.sort(key=_in_order)
        self._read = members
        asked = [self._fetch_set.asked[member.place] for member in members]
        for member, one in zip(members, asked, strict=True):
            replica = replicas.get((one.topic_id, one.partition))
            member.stand_at(None if replica is None else replica.waiters)
        return asked

    def answered(self, work: FetchWork) -> None:
        """The last read is the answer: partitions without news wait from now on."""
        work.answered = self._reported = [member.place for member in self._read]
        asked = self._fetch_set.asked
        committed = work.isolation_level == READ_COMMITTED
        for member, result in zip(self._read, work.results, strict=True):
            if result.nbytes:
                self._order += 1
                member.order = self._order
            elif not (
                result.error_code or result.diverging_epoch >= 0 or result.preferred_replica >= 0
            ):
                end = result.last_stable_offset if committed else result.high_watermark
                if asked[member.place].fetch_offset >= end:
                    self._ready.pop(member.place, None)
        self._read = []

    # ---- news ----

    def moved(self, member: FetchWait) -> None:
        """Records were committed, as the member's missing bytes say, or the replica leads no more."""
        nbytes, member.missing_bytes = -member.missing_bytes, 0
        self.note(member)
        wait = self.wait
        if wait is not None and not wait.finished:
            wait.missing_bytes -= nbytes
            if wait.missing_bytes <= 0 or not nbytes:
                wait.leave()
                wait.finish(wait)

    def look(self, member: FetchWait) -> None:
        """Something else has changed, which a read will show."""
        self.note(member)
        wait = self.wait
        if wait is not None and not wait.finished:
            wait.look(wait)

    def note(self, member: FetchWait) -> None:
        """The next fetch reads the partition."""
        assert isinstance(member, SetMember)
        self._ready[member.place] = member
