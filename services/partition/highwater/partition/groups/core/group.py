"""One classic group in memory: members, protocol votes, leader, generation.

This is the working state of a rebalance. `durable` holds what must survive a crash: when a shard
is loaded, each group is built from its image, and every completed generation is written as a
record. This is the coordinator's view; members learn of changes only from responses.
"""

from collections.abc import Iterable

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.timers import Timer
from highwater.partition.groups.consumer.sizes import text_size
from highwater.partition.groups.core.durable import GroupImage, MemberImage
from highwater.partition.groups.core.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
    check_transition,
)
from highwater.partition.groups.core.values import GroupKey, JoinedMember

GENERATION_MAX = 2**31 - 1


def metadata_size(protocols: Iterable[tuple[str, bytes]]) -> int:
    """Estimate the memory that a member's protocols take."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


def memory_of(protocols: Iterable[tuple[str, bytes]], instance_id: str | None) -> int:
    """About the memory of what a member sent."""
    return metadata_size(protocols) + text_size(instance_id or "")


class Member:
    """A member of a group; lives from its accepted JoinGroup until it leaves or times out."""

    __slots__ = (
        "awaiting_join",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_token",
        "knows_its_id",
        "member_id",
        "metadata_bytes",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[tuple[str, bytes], ...],
        session: Timer,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = dict(protocols)
        """Name -> metadata, in the member's order of preference."""
        self.metadata_bytes = memory_of(protocols, instance_id)
        self.session = session
        self.is_new = False
        self.knows_its_id = True
        """False until JoinGroup v0-3 is answered: only that response gives the member its id."""
        self.awaiting_join = False
        self.join_token: object | None = None
        """The parked JoinGroup. None while `awaiting_join` is set: the client has disconnected."""
        self.sync_token: object | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for this protocol; empty when it does not support the protocol."""
        return b"" if protocol is None else self.protocols.get(protocol, b"")

    def offers(self, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """Whether the member already has exactly these protocols, in the same order."""
        return tuple(self.protocols.items()) == protocols


class ClassicGroup:
    """Members and state of one group; see `GroupState` for the legal transitions."""

    __slots__ = (
        "awaiting_join_count",
        "generation",
        "join_timer",
        "key",
        "leader",
        "members",
        "new_member_added",
        "pending_members",
        "pending_sync",
        "previous_state",
        "protocol",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
        "sync_timer",
        "votes",
    )

    def __init__(
        self, key: GroupKey, *, join_timer: Timer, sync_timer: Timer, wall_ms: int
    ) -> None:
        self.key = key
        self.state = EMPTY
        self.previous_state = EMPTY
        self.state_since_ms = wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id (KIP-345)."""
        self.pending_members: dict[str, Timer] = {}
        """Ids handed out with MEMBER_ID_REQUIRED and not used yet -> their timeouts."""
        self.pending_sync: set[str] = set()
        """Members that have this generation and have not sent SyncGroup yet."""
        self.votes: dict[str, int] = {}
        """Protocol name -> how many members support it."""
        self.awaiting_join_count = 0
        self.new_member_added = False
        self.join_timer = join_timer
        self.sync_timer = sync_timer

    def transition(self, target: GroupState, wall_ms: int) -> None:
        """Move to `target`, which the table must allow."""
        check_transition(self.state, target)
        self.previous_state = self.state
        self.state = target
        self.state_since_ms = wall_ms

    # -- members ------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one sets the protocol type and becomes the leader."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending_members.pop(member.member_id, None)
        self._vote(member.protocols, 1)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Remove a member; if it was the leader, the member that joined next becomes leader."""
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        self._vote(member.protocols, -1)
        if member.awaiting_join:
            member.awaiting_join = False
            self.awaiting_join_count -= 1
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def update(
        self,
        member: Member,
        *,
        protocols: tuple[tuple[str, bytes], ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Replace the member's protocols and timeouts by those of its new JoinGroup."""
        self._vote(member.protocols, -1)
        member.protocols = dict(protocols)
        member.metadata_bytes = memory_of(protocols, member.instance_id)
        self._vote(member.protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member a new id; the order of members stays the same."""
        assert member.instance_id is not None
        old_id = member.member_id
        member.member_id = member_id
        self.members = {m.member_id: m for m in self.members.values()}
        self.static_members[member.instance_id] = member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(member_id)
        if self.leader == old_id:
            self.leader = member_id

    def set_awaiting_join(self, member: Member, token: object) -> None:
        """Note that the member's JoinGroup is parked."""
        if not member.awaiting_join:
            member.awaiting_join = True
            self.awaiting_join_count += 1
        member.join_token = token

    def clear_awaiting_join(self, member: Member) -> object | None:
        """Note that the member's JoinGroup is answered; return its token if a client waits."""
        if member.awaiting_join:
            member.awaiting_join = False
            self.awaiting_join_count -= 1
        token, member.join_token = member.join_token, None
        return token

    def validate(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE if this pair is a member of the group, otherwise the error (KIP-345)."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # -- rebalance ----------------------------------------------------------------------------

    def can_rebalance(self) -> bool:
        """Whether a rebalance may start from the present state."""
        return self.state in (EMPTY, STABLE, COMPLETING_REBALANCE)

    def all_joined(self) -> bool:
        """Whether every member waits in JoinGroup and every id that was handed out is used."""
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether a member with these protocols fits into the group."""
        if not self.members:
            return protocol_type != "" and any(True for _ in protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self.votes.get(name, 0) == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """Choose the protocol that most members prefer among those that all members support.

        With equal votes the order of the first member's list decides, so that the same history
        always leads to the same choice.
        """
        count = len(self.members)
        candidates = [name for name, votes in self.votes.items() if votes == count]
        assert candidates, "the members have no common protocol"
        if len(candidates) == 1:
            return candidates[0]
        first = next(iter(self.members.values()))
        tally = {name: 0 for name in first.protocols if name in candidates}
        for member in self.members.values():
            tally[next(name for name in member.protocols if name in tally)] += 1
        return max(tally, key=lambda name: tally[name])

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has rejoined; False when none has."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join:
            return True
        for member in self.members.values():
            if member.awaiting_join:
                self.leader = member.member_id
                return True
        return False

    def next_generation(self, wall_ms: int) -> None:
        """Begin the next generation with the present members."""
        assert self.state is PREPARING_REBALANCE
        # Kafka lets the number overflow. Ours stays positive, because -1 means "none".
        self.generation = self.generation + 1 if self.generation < GENERATION_MAX else 0
        self.pending_sync.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.transition(COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol = None
            self.transition(EMPTY, wall_ms)

    # -- views --------------------------------------------------------------------------------

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """All members with their metadata for the chosen protocol, for the leader's response."""
        protocol = self.protocol
        return tuple(
            JoinedMember(
                member_id=m.member_id, instance_id=m.instance_id, metadata=m.metadata(protocol)
            )
            for m in self.members.values()
        )

    def image(self, assignment: dict[str, bytes], wall_ms: int) -> GroupImage:
        """Make this generation's image; a member without an assignment gets an empty one."""
        return GroupImage(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_since_ms=wall_ms,
            members=tuple(
                MemberImage(
                    member_id=m.member_id,
                    instance_id=m.instance_id,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    rebalance_timeout_ms=m.rebalance_timeout_ms,
                    session_timeout_ms=m.session_timeout_ms,
                    subscription=m.metadata(self.protocol),
                    assignment=assignment.get(m.member_id, b""),
                )
                for m in self.members.values()
            ),
        )

    def _vote(self, protocols: Iterable[str], weight: int) -> None:
        for name in protocols:
            count = self.votes.get(name, 0) + weight
            if count:
                self.votes[name] = count
            else:
                del self.votes[name]
