"""The state that the handlers of one shard share: groups, timers, durable state, and output."""

from collections.abc import Callable

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.core.instance_counts import InstanceCounts
from highwater.partition.coordinator.core.timers import Timer, TimerHeap
from highwater.partition.coordinator.core.values import Moment, Reply
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.durable import DurableState, Record
from highwater.partition.groups.core.group import ClassicGroup, Member, memory_of, metadata_size
from highwater.partition.groups.core.group_limit import COORDINATOR_FULL, GroupLimit, no_limit
from highwater.partition.groups.core.shares import SharedCounts, has_places
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
        "_limit",
        "classic_counts",
        "config",
        "durable",
        "groups",
        "member_counts",
        "metadata_counts",
        "new_id",
        "parked",
        "records",
        "replies",
        "timers",
    )

    def __init__(
        self,
        config: GroupConfig,
        new_id: Callable[[], str],
        limit: GroupLimit = no_limit,
    ) -> None:
        """Start empty; `new_id` gives the random part of member ids. For `limit` see `group_limit`."""
        self._limit = limit
        self.config = config
        self.new_id = new_id
        self.durable = DurableState()
        self.groups: dict[GroupKey, ClassicGroup] = {}
        self.classic_counts = InstanceCounts()
        """Of `groups`."""
        self.timers = TimerHeap()
        self.member_counts = SharedCounts()
        """Members of both types of groups, and ids that were handed out."""
        self.metadata_counts = SharedCounts()
        """About the memory in bytes that what these members sent takes."""
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
        instance, group = request.key.instance, self.groups.get(request.key)
        known = None if group is None else group.members.get(request.member_id)
        if known is None:
            grows = memory_of(request.protocols, request.instance_id)
        else:
            grows = memory_of(request.protocols, known.instance_id) - known.metadata_bytes
        if not self.may_grow(instance, grows):
            return False
        return bool(request.member_id) or self.may_have_member(instance)

    def may_grow(self, instance: InstanceId, nbytes: int) -> bool:
        """Whether the instance's members may take so much more memory; less they always may."""
        limit = self.config.metadata_bytes_max
        return nbytes <= 0 or self.metadata_counts.has_places(instance, nbytes, limit=limit)

    def may_have_member(self, instance: InstanceId) -> bool:
        """Whether the instance may have a further member, or be handed out an id for one."""
        limit = self.config.members_max
        if instance == DEFAULT_INSTANCE:
            # Nearly every timer belongs to a member or to an id that was handed out.
            return len(self.timers) < limit
        # Members may have several timers, and get them later: those of one would fill the shard.
        return self.member_counts.has_places(instance, 1, limit=limit)

    def count_members(self, key: GroupKey, members: int, nbytes: int) -> None:
        """The group has so many more, which sent so much more; negative for fewer and less."""
        self.member_counts.add(key.instance, members)
        self.metadata_counts.add(key.instance, nbytes)

    def add_member(self, group: ClassicGroup, member: Member, protocol_type: str) -> None:
        """Add the member to the group."""
        group.add(member, protocol_type)
        self.count_members(group.key, 1, member.metadata_bytes)

    def update_member(self, group: ClassicGroup, member: Member, request: JoinRequest) -> None:
        """Take the protocols and timeouts of a member that joins again."""
        before = member.metadata_bytes
        group.update(
            member,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )
        self.count_members(group.key, 0, member.metadata_bytes - before)

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
        self._drop_member(group, member)

    def _drop_member(self, group: ClassicGroup, member: Member) -> None:
        group.remove(member.member_id)
        self.count_members(group.key, -1, -member.metadata_bytes)

    def add_pending_member(
        self, group: ClassicGroup, member_id: str, timer: Timer, deadline_ms: int
    ) -> None:
        """Note an id that is handed out, and when it is forgotten."""
        group.pending_members[member_id] = timer
        self.count_members(group.key, 1, 0)
        self.timers.set(timer, deadline_ms)

    def remove_pending_member(self, group: ClassicGroup, member_id: str) -> bool:
        """Forget an id that was handed out and not used; False if there is none."""
        timer = group.pending_members.pop(member_id, None)
        if timer is None:
            return False
        self.timers.cancel(timer)
        self.count_members(group.key, -1, 0)
        return True

    def restart_session(self, member: Member, now: Moment) -> None:
        """Start the member's session anew."""
        self.timers.set(member.session, now.now_ms + member.session_timeout_ms)

    # -- groups -------------------------------------------------------------------------------

    def count(self, instance: InstanceId) -> int:
        """The instance's groups, of both types."""
        return self.classic_counts[instance] + self.durable.consumer_counts[instance]

    def refuses_group(self, instance: InstanceId) -> str:
        """Why the instance may have no further group; empty if it may."""
        left = self.config.groups_max - len(self.groups) - len(self.durable.consumer_groups)
        if not has_places(instance, 1, own=self.count(instance), left=left):
            return COORDINATOR_FULL
        return self._limit(instance)

    def add_group(self, group: ClassicGroup) -> None:
        """Keep a new group in memory."""
        assert group.key not in self.groups
        self.groups[group.key] = group
        self.classic_counts.add(group.key.instance, 1)

    def dissolve(self, group: ClassicGroup, error: ErrorCode, wall_ms: int) -> None:
        """Remove a group and its members from memory; calls that wait are answered with `error`."""
        for member in list(group.members.values()):
            self.timers.cancel(member.session)
            join = JoinResponse(error=error, member_id=member.member_id)
            self.answer_join(group, member, join)
            self.answer_sync(member, SyncResponse(error=error), after_commit=False)
            self._drop_member(group, member)
        self._forget(group, wall_ms)

    def kill(self, group: ClassicGroup, wall_ms: int) -> None:
        """Remove an empty group from memory."""
        assert group.state is EMPTY
        self._forget(group, wall_ms)

    def _forget(self, group: ClassicGroup, wall_ms: int) -> None:
        for timer in group.pending_members.values():
            self.timers.cancel(timer)
        self.count_members(group.key, -len(group.pending_members), 0)
        group.pending_members.clear()
        self.timers.cancel(group.join_timer)
        self.timers.cancel(group.sync_timer)
        group.transition(DEAD, wall_ms)
        del self.groups[group.key]
        self.classic_counts.add(group.key.instance, -1)

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

    # -- offsets ------------------------------------------------------------------------------

    def may_commit(self, instance: InstanceId, more: int) -> bool:
        """Whether the instance may have so many more offsets, those of open transactions included."""
        durable, pending = self.durable, self.durable.pending
        own = durable.offset_counts[instance] + pending.counts[instance]
        left = self.config.offsets_max - durable.offset_count - len(pending)
        return has_places(instance, more, own=own, left=left)

    def new_timer(self, action: Callable[[Moment], None]) -> Timer:
        """A timer of this shard, not yet set."""
        return Timer(action)
