"""The state that the handlers of one shard share: groups, timers, durable state, and output."""

from collections.abc import Callable

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.core.timers import Timer, TimerHeap
from highwater.partition.coordinator.core.values import Moment, Reply
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.durable import DurableState, Record
from highwater.partition.groups.core.group import ClassicGroup, Member, metadata_size
from highwater.partition.groups.core.state import DEAD, EMPTY
from highwater.partition.groups.core.values import (
    GroupKey,
    JoinRequest,
    JoinResponse,
    Response,
    SyncResponse,
)


class ShardState:
    """The state of one partition of a topic of groups, owned by one shard.

    Handlers put records into `records` (already replayed, to be appended in order) and answers
    into `replies`; the owner takes both after each call.
    """

    __slots__ = (
        "config",
        "durable",
        "groups",
        "metadata_bytes",
        "new_id",
        "parked",
        "records",
        "replies",
        "timers",
    )

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        """Start empty; `new_id` gives the random part of member ids."""
        self.config = config
        self.new_id = new_id
        self.durable = DurableState()
        self.groups: dict[GroupKey, ClassicGroup] = {}
        self.timers = TimerHeap()
        self.metadata_bytes = 0
        """About the memory that what the members of all groups sent takes."""
        self.parked: dict[object, tuple[ClassicGroup, Member]] = {}
        """Token of a parked JoinGroup or SyncGroup -> its group and member."""
        self.records: list[Record] = []
        self.replies: list[Reply[Response]] = []

    def apply(self, record: Record) -> None:
        """Replay a record now and queue it for the append."""
        self.durable.replay(record)
        self.records.append(record)

    def reply(self, token: object, response: Response, *, after_commit: bool = False) -> None:
        """Answer a call, parked or not."""
        self.parked.pop(token, None)
        self.replies.append(Reply(token, response, after_commit))

    # -- members ------------------------------------------------------------------------------

    def has_room(self, request: JoinRequest) -> bool:
        """Whether the request's metadata fits, and a new member, if it is one."""
        config = self.config
        size = metadata_size(request.protocols)
        if size > config.operation_bytes_max:
            return False
        group = self.groups.get(request.key)
        known = None if group is None else group.members.get(request.member_id)
        if not self.may_grow(size - (0 if known is None else known.metadata_bytes)):
            return False
        # Nearly every timer belongs to a member or to an id that was handed out.
        return bool(request.member_id) or len(self.timers) < config.members_max

    def may_grow(self, nbytes: int) -> bool:
        """Whether members may take so much more memory together; less they always may."""
        return nbytes <= 0 or self.metadata_bytes + nbytes <= self.config.metadata_bytes_max

    def add_member(self, group: ClassicGroup, member: Member, protocol_type: str) -> None:
        """Add the member to the group."""
        group.add(member, protocol_type)
        self.metadata_bytes += member.metadata_bytes

    def update_member(self, group: ClassicGroup, member: Member, request: JoinRequest) -> None:
        """Take the protocols and timeouts of a member that joins again."""
        self.metadata_bytes -= member.metadata_bytes
        group.update(
            member,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )
        self.metadata_bytes += member.metadata_bytes

    def park_join(self, group: ClassicGroup, member: Member, token: object) -> None:
        """Park the member's JoinGroup until the rebalance completes."""
        earlier = member.join_token
        group.set_awaiting_join(member, token)
        self.parked[token] = (group, member)
        if earlier is not None and earlier is not token:
            # The member sent JoinGroup again on another connection. Every client retries on
            # this code, so it does no harm to the earlier call.
            self.reply(
                earlier,
                JoinResponse(
                    error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, member_id=member.member_id
                ),
            )

    def park_sync(self, group: ClassicGroup, member: Member, token: object) -> None:
        """Park the member's SyncGroup until the leader's assignment comes."""
        earlier = member.sync_token
        member.sync_token = token
        self.parked[token] = (group, member)
        if earlier is not None and earlier is not token:
            self.reply(earlier, SyncResponse(error=ErrorCode.REBALANCE_IN_PROGRESS))

    def answer_join(self, group: ClassicGroup, member: Member, response: JoinResponse) -> None:
        """Answer the member's JoinGroup; if its client has disconnected, only mark it answered."""
        token = group.clear_awaiting_join(member)
        if token is not None:
            self.reply(token, response)

    def answer_sync(self, member: Member, response: SyncResponse, *, after_commit: bool) -> bool:
        """Answer the member's SyncGroup; False when none is parked."""
        token, member.sync_token = member.sync_token, None
        if token is None:
            return False
        self.reply(token, response, after_commit=after_commit)
        return True

    def remove_member(self, group: ClassicGroup, member_id: str, error: ErrorCode) -> None:
        """Remove the member and answer its parked calls with `error`."""
        member = group.members.get(member_id)
        if member is None:
            return
        self.timers.cancel(member.session)
        self.answer_join(group, member, JoinResponse(error=error, member_id=""))
        self.answer_sync(member, SyncResponse(error=error), after_commit=False)
        group.remove(member_id)
        self.metadata_bytes -= member.metadata_bytes

    def remove_pending_member(self, group: ClassicGroup, member_id: str) -> bool:
        """Forget an id that was handed out and not used; False if there is none."""
        timer = group.pending_members.pop(member_id, None)
        if timer is None:
            return False
        self.timers.cancel(timer)
        return True

    def restart_session(self, member: Member, now: Moment) -> None:
        """Start the member's session anew."""
        self.timers.set(member.session, now.now_ms + member.session_timeout_ms)

    # -- groups -------------------------------------------------------------------------------

    def dissolve(self, group: ClassicGroup, error: ErrorCode, wall_ms: int) -> None:
        """Remove a group and its members from memory; calls that wait are answered with `error`."""
        for member in list(group.members.values()):
            self.timers.cancel(member.session)
            join = JoinResponse(error=error, member_id=member.member_id)
            self.answer_join(group, member, join)
            self.answer_sync(member, SyncResponse(error=error), after_commit=False)
            group.remove(member.member_id)
            self.metadata_bytes -= member.metadata_bytes
        self._forget(group, wall_ms)

    def kill(self, group: ClassicGroup, wall_ms: int) -> None:
        """Remove an empty group from memory."""
        assert group.state is EMPTY
        self._forget(group, wall_ms)

    def _forget(self, group: ClassicGroup, wall_ms: int) -> None:
        for timer in group.pending_members.values():
            self.timers.cancel(timer)
        group.pending_members.clear()
        self.timers.cancel(group.join_timer)
        self.timers.cancel(group.sync_timer)
        group.transition(DEAD, wall_ms)
        del self.groups[group.key]

    def forget_if_unused(self, group: ClassicGroup, wall_ms: int) -> None:
        """Remove an empty group of which no record exists."""
        if (
            group.state is EMPTY
            and not group.pending_members
            and group.key not in self.durable.images
            and group.key not in self.durable.offsets
            and group.key not in self.durable.pending
        ):
            self.kill(group, wall_ms)

    def new_timer(self, action: Callable[[Moment], None]) -> Timer:
        """A timer of this shard, not yet set."""
        return Timer(action)
