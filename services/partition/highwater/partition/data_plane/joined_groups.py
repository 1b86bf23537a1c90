"""Groups of several producers that are appended together: one check of the log's state, one write.

Each transaction begins with a group of its own for each of its partitions, and what a coordinator grants
in one turn is of many transactions. Their groups stay what they are, and each is answered for itself:
what the log says of the joined group is told to its members, part by part.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

from highwater.hop.append import GROUP_BATCHES_MAX, GROUP_BYTES_MAX, AppendGroup, Failure

DEADLINES_APART_MS_MAX: Final = 100
"""Of the members of one group: it ends with the latest, and nobody shall wait for others much longer."""

T = TypeVar("T")


class JoinedGroup(AppendGroup):
    """Lives from the append to the answer; no stream and no gateway sees it."""

    __slots__ = ("members",)

    def __init__(self, members: list[AppendGroup]) -> None:
        """`members`: see `joined`."""
        first = members[0]
        super().__init__(
            first.topic_id,
            first.partition,
            first.leader_epoch,
            first.acks,
            first.instance,
            _Members(members),
        )
        self.members = members
        self.batches = [batch for member in members for batch in member.batches]
        self.nbytes = sum([member.nbytes for member in members])
        self.writable = first.writable
        self.deadline_ms = max([member.last_deadline_ms for member in members])
        self.transaction = first.transaction

    def release_bytes(self) -> None:
        """See `AppendGroup`; those that may be sent again stay with their member."""
        super().release_bytes()
        for member in self.members:
            member.release_bytes()


class _Members:
    """Owns a joined group."""

    __slots__ = ("_members",)

    def __init__(self, members: list[AppendGroup]) -> None:
        self._members = members

    def take_result(
        self, group: AppendGroup, base_offsets: list[int], failures: Mapping[int, Failure] | None
    ) -> bool:
        """See `AppendOwner`."""
        broken: Exception | None = None
        begin = 0
        for member in self._members:
            end = begin + len(member.batches)
            member.log_start_offset = group.log_start_offset
            member.log_append_time_ms = group.log_append_time_ms
            member.known_timestamps = _part(group.known_timestamps, begin, end)
            try:
                member.complete(base_offsets[begin:end], _part(failures, begin, end))
            except Exception as error:  # noqa: BLE001 - raised below: the others get their answers.
                broken = error
            begin = end
        if broken is not None:
            raise broken
        return True


def _part(of: Mapping[int, T] | None, begin: int, end: int) -> dict[int, T] | None:
    """What is said of the places from `begin` to `end`, counted from `begin`; None if nothing is."""
    if not of:
        return None
    return {place - begin: said for place, said in of.items() if begin <= place < end} or None


def joined(groups: Iterable[AppendGroup]) -> Iterator[AppendGroup]:
    """The groups of one partition in their order, those that may be appended together as one."""
    members: list[AppendGroup] = []
    batches = nbytes = 0
    for group in groups:
        if members and not (
            _alike(members[0], group)
            and batches + len(group.batches) <= GROUP_BATCHES_MAX
            and nbytes + group.nbytes <= GROUP_BYTES_MAX
        ):
            yield _one(members)
            members, batches, nbytes = [], 0, 0
        members.append(group)
        batches += len(group.batches)
        nbytes += group.nbytes
    if members:
        yield _one(members)


def _alike(one: AppendGroup, other: AppendGroup) -> bool:
    """Whether the log treats both alike."""
    apart_ms = abs(one.last_deadline_ms - other.last_deadline_ms)
    return (
        one.acks == other.acks
        and one.leader_epoch == other.leader_epoch
        and one.writable == other.writable
        and apart_ms <= DEADLINES_APART_MS_MAX
    )


def _one(members: list[AppendGroup]) -> AppendGroup:
    return members[0] if len(members) == 1 else JoinedGroup(members)
