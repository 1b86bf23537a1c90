"""What the handlers of one shard share: groups, timers, durable state, and what they produce."""

from collections.abc import Callable

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.durable import DurableState, Record
from highwater.partition.groups.core.group import ClassicGroup, Member, metadata_size
from highwater.partition.groups.core.state import DEAD, EMPTY
from highwater.partition.groups.core.timers import Timer, TimerHeap
from highwater.partition.groups.core.values import (
    GroupKey,
    JoinRequest,
    JoinResponse,
    Moment,
    Reply,
    SyncResponse,
)


class ShardState:
    """The state of one partition of `__consumer_offsets`, owned by one shard.

    Handlers leave what they decided in `records` (already replayed, to be appended in order) and
    `replies`; the shell takes both after each call.
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
        """Sum over the members of all groups."""
        self.parked: dict[object, tuple[ClassicGroup, Member]] = {}
        """Token of a parked JoinGroup or SyncGroup -> the caller that waits."""
        self.records: list[Record] = []
        self.replies: list[Reply] = []

    def apply(self, record: Record) -> None:
        """Replay a record now and leave it to be appended."""
        self.durable.replay(record)
        self.records.append(record)

    def reply(
        self, token: object, response: JoinResponse | SyncResponse, *, after_commit: bool = False
    ) -> None:
        """Answer a call, parked or not."""
        self.parked.pop(token, None)
        self.replies.append(Reply(token, response, after_commit))

    # -- members ------------------------------------------------------------------------------

    def has_room(self, request: JoinRequest) -> bool:
        """Whether a member may say this much, and a new one may come at all."""
        config = self.config
        more_bytes = metadata_size(request.protocols)
        if more_bytes > config.operation_bytes_max:
            return False
        if request.member_id:
            return True
        # Nearly every timer is a member's or a handed-out id's.
        return (
            len(self.timers) < config.members_max
            and self.metadata_bytes + more_bytes <= config.metadata_bytes_max
        )

    def add_member(self, group: ClassicGroup, member: Member, protocol_type: str) -> None:
        """Let the member into the group."""
        group.add(member, protocol_type)
        self.metadata_bytes += member.metadata_bytes

    def update_member(self, group: ClassicGroup, member: Member, request: JoinRequest) -> None:
        """The member has joined again and may say something else."""
        self.metadata_bytes -= member.metadata_bytes
        group.update(
            member,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )
        self.metadata_bytes += member.metadata_bytes

    def park_join(self, group: ClassicGroup, member: Member, token: object) -> None:
        """Let the member's JoinGroup wait for the rebalance to complete."""
        earlier = member.join_token
        group.set_awaiting_join(member, token)
        self.parked[token] = (group, member)
        if earlier is not None and earlier is not token:
            # The member asked again on another connection. Every client takes this code as
            # "ask again later", which the abandoned call may do without harm.
            self.reply(
                earlier,
                JoinResponse(
                    error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, member_id=member.member_id
                ),
            )

    def park_sync(self, group: ClassicGroup, member: Member, token: object) -> None:
        """Let the member's SyncGroup wait for the leader's assignment."""
        earlier = member.sync_token
        member.sync_token = token
        self.parked[token] = (group, member)
        if earlier is not None and earlier is not token:
            self.reply(earlier, SyncResponse(error=ErrorCode.REBALANCE_IN_PROGRESS))

    def answer_join(self, group: ClassicGroup, member: Member, response: JoinResponse) -> None:
        """Answer the member's JoinGroup; when its client has gone, only note it as answered."""
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
        """Take the member out, answering what it has parked with `error`."""
        member = group.members.get(member_id)
        if member is None:
            return
        self.timers.cancel(member.session)
        self.answer_join(group, member, JoinResponse(error=error, member_id=""))
        self.answer_sync(member, SyncResponse(error=error), after_commit=False)
        group.remove(member_id)
        self.metadata_bytes -= member.metadata_bytes

    def remove_pending_member(self, group: ClassicGroup, member_id: str) -> bool:
        """Forget an id that was handed out and not used."""
        timer = group.pending_members.pop(member_id, None)
        if timer is None:
            return False
        self.timers.cancel(timer)
        return True

    def restart_session(self, member: Member, now: Moment) -> None:
        """The member was heard of: its session begins anew."""
        self.timers.set(member.session, now.now_ms + member.session_timeout_ms)

    # -- groups -------------------------------------------------------------------------------

    def kill(self, group: ClassicGroup, wall_ms: int) -> None:
        """Take an empty group out of memory."""
        assert group.state is EMPTY
        for timer in group.pending_members.values():
            self.timers.cancel(timer)
        group.pending_members.clear()
        self.timers.cancel(group.join_timer)
        self.timers.cancel(group.sync_timer)
        group.transition(DEAD, wall_ms)
        del self.groups[group.key]

    def forget_if_unused(self, group: ClassicGroup, wall_ms: int) -> None:
        """Drop a group that exists only because somebody asked for it."""
        if (
            group.state is EMPTY
            and not group.pending_members
            and group.key not in self.durable.images
            and group.key not in self.durable.offsets
        ):
            self.kill(group, wall_ms)

    def new_timer(self, action: Callable[[Moment], None]) -> Timer:
        """A timer of this shard, not yet set."""
        return Timer(action)
