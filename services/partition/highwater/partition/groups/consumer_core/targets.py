"""Target assignments: a group's epoch grows at once, and what its members are to hold follows.

Groups may have thousands of members and tens of thousands of partitions, so the work is done in
steps of about two milliseconds (decision 206). The first one is done with the heartbeat that asks; a
small group needs no other, and its member is answered from the new target. A large group's goes on
in the shard's timer, at most one computation for each group. Until then heartbeats are answered from
the former target. What a group has never had yet is an empty one.

Changes that come soon after a target wait for the next one together: for the group's
`consumer.assignment.interval.ms`, from when the last one was made (KIP-1263). The first heartbeat
after that begins it. A group whose target was never made by an assignor does not wait.

A computation is of the group as it was at its beginning. If the group changes meanwhile, the result
still counts for the epoch that it was made for, but for members that are gone, and the next computation
begins with the first heartbeat that may: a group that always changes gets targets, too. Kafka:
`TargetAssignmentBuilder`, `maybeUpdateTargetAssignment`.
"""

from collections.abc import Mapping
from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.model.steps import Steps
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.assignors.pace import Pace
from highwater.partition.groups.consumer.assignors.types import (
    MemberAssignment,
    MemberSubscription,
    SubscribedTopic,
)
from highwater.partition.groups.consumer.durable import (
    TargetEpoch,
    TargetEpochRecord,
    TargetRecord,
)
from highwater.partition.groups.consumer.group import NO_EPOCH, ConsumerGroup
from highwater.partition.groups.consumer.sizes import assignment_size
from highwater.partition.groups.consumer.topics import subscribed
from highwater.partition.groups.consumer_core.state import (
    Computation,
    ConsumerState,
    Failure,
    Refusal,
)
from highwater.partition.groups.core.values import GroupKey

_PAUSE_MS: Final = 1
"""Between two steps, so that calls are handled meanwhile."""
_RECORD_UNITS: Final = 10
"""What a record costs that is written and appended, in units of `Pace`."""
_UNIT_TOPICS: Final = 5
"""Topics of a target whose size is added up in the time of one unit."""


def assign(state: ConsumerState, key: GroupKey, group: ConsumerGroup, now: Moment) -> None:
    """Make, or begin to make, the target for the group's epoch if that is newer than the target's.

    Raises Refusal if it cannot be stored. What was decided before then stands.
    """
    if group.epoch <= group.target_epoch:
        return
    running = state.computations.get(key)
    if running is not None and running.group is group:
        return
    failure = state.failures.get(key)
    if failure is not None and failure.group is group and failure.epoch == group.epoch:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, failure.message)
    if not _is_due(state, key, group, now):
        return
    computation = TargetComputation(state, key, group)
    if _step(state, key, computation, now):
        return
    if group.target_epoch == NO_EPOCH:
        # Epoch 0 means that a member has not joined. So members get one in which they have nothing.
        state.apply(TargetEpochRecord(key, TargetEpoch(group.epoch, 0)))
        state.bump_epoch(key, group)
        computation.epoch = group.epoch
    _go_on(state, key, computation, now)


def epoch_within_reach(
    state: ConsumerState, key: GroupKey, group: ConsumerGroup, now: Moment
) -> int:
    """The epoch that a member gets if it joins again: the group's, unless its target is being made or
    must wait.
    """
    running = state.computations.get(key)
    if running is not None and running.group is group:
        return group.target_epoch
    return group.epoch if _is_due(state, key, group, now) else group.target_epoch


def _is_due(state: ConsumerState, key: GroupKey, group: ConsumerGroup, now: Moment) -> bool:
    """Whether the interval since the last target is over; also if the clock was set back since."""
    if not group.target_made_ms:
        return True
    passed_ms = now.wall_ms - group.target_made_ms
    return not 0 <= passed_ms < state.config_of(key).assignment_interval_ms


def _go_on(state: ConsumerState, key: GroupKey, computation: Computation, now: Moment) -> None:
    """Do the next step later, after those of other groups."""
    if not state.computations:
        state.computation_timer.action = lambda later: _compute_some(state, later)
        state.shard.timers.set(state.computation_timer, now.now_ms + _PAUSE_MS)
    state.computations.pop(key, None)
    state.computations[key] = computation


def _compute_some(state: ConsumerState, now: Moment) -> None:
    """One step of the computation that has waited for longest; groups take turns."""
    key = next(iter(state.computations))
    computation = state.computations.pop(key)
    group = computation.group
    if state.groups.get(key) is group:
        try:
            ends = _step(state, key, computation, now)
        except Refusal:
            ends = True  # The next heartbeats are told.
        if not ends:
            state.computations[key] = computation
        elif group.members and group.epoch > computation.epoch and _is_due(state, key, group, now):
            state.computations[key] = TargetComputation(state, key, group)
    if state.computations:
        state.shard.timers.set(state.computation_timer, now.now_ms + _PAUSE_MS)


def _step(state: ConsumerState, key: GroupKey, computation: Computation, now: Moment) -> bool:
    """Do some of it; True if that was the last step. Raises Refusal, which is remembered."""
    try:
        return computation.step(now)
    except Refusal as refusal:
        for other in [other for other in state.failures if other not in state.groups]:
            del state.failures[other]
        failure = Failure(computation.group, computation.epoch, refusal.message)
        state.failures[key] = failure
        raise


class TargetComputation:
    """The work on one group's target, from its beginning until the target is written."""

    __slots__ = ("_key", "_pace", "_state", "_steps", "_wall_ms", "epoch", "group")

    def __init__(self, state: ConsumerState, key: GroupKey, group: ConsumerGroup) -> None:
        """It begins with the first step."""
        self._state = state
        self._key = key
        self._pace = Pace(state.config.assignment_step_units)
        self._steps = self._computing()
        self._wall_ms = 0
        """Of the present step."""
        self.group = group
        self.epoch = group.epoch
        """The target's."""

    def step(self, now: Moment) -> bool:
        """Do some of it; True if that was the last step. Raises Refusal."""
        self._wall_ms = now.wall_ms
        return next(self._steps, self) is self

    def _computing(self) -> Steps[None]:
        """The group may change in any pause, the copy of it does not."""
        state, pace = self._state, self._pace
        self.epoch = self.group.epoch
        before = self.group.copy()
        topics = subscribed(state.topics, self._key.instance, before.subscribed_topics())
        assignor = state.assignors.get(before.preferred_assignor() or "")
        if assignor is None:  # None is wanted, or one that this node no longer has.
            assignor = next(iter(state.assignors.values()))
        members = yield from _subscriptions(before, topics, pace)
        targets = yield from assignor.assigning(members, topics, before.targets, pace)
        for target in targets.values():
            if assignment_size(target) > state.config.list_bytes_max:
                # As Kafka answers when a record is too large; members keep what they have.
                message = "The assignment of a member is too large for a record."
                raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message)
            if pace.is_full(1 + len(target) // _UNIT_TOPICS):
                yield
        yield from self._writing(before, targets)

    def _writing(
        self, before: ConsumerGroup, targets: Mapping[str, MemberAssignment]
    ) -> Steps[None]:
        """The epoch comes last. A crash before it leaves some members' next targets, for which the next
        computation has no other value, or a better one.
        """
        group = self.group
        for former_id, target in targets.items():
            member_id = _present_id(group, before, former_id)
            if member_id is not None and group.targets.get(member_id) != target:
                self._state.apply(TargetRecord(self._key, member_id, target))
                if self._pace.is_full(_RECORD_UNITS + len(target)):
                    yield
            elif self._pace.is_full():
                yield
        self._state.apply(TargetEpochRecord(self._key, TargetEpoch(self.epoch, self._wall_ms)))


def _present_id(group: ConsumerGroup, before: ConsumerGroup, member_id: str) -> str | None:
    """The id that the member has now; None if it is gone.

    A static member's next incarnation (KIP-345) has another id and begins no epoch.
    """
    if member_id in group.members:
        return member_id
    successor = group.static_member(before.members[member_id].metadata.instance_id)
    if successor is None or successor.member_id in before.members:
        return None
    return successor.member_id


def _subscriptions(
    group: ConsumerGroup, topics: Mapping[TopicId, SubscribedTopic], pace: Pace
) -> Steps[list[MemberSubscription]]:
    """What members read. Those that read the same share one set: there may be a thousand of them, with
    as many topics.
    """
    ids = {topic.name: topic_id for topic_id, topic in topics.items()}
    known: dict[tuple[frozenset[str], str], frozenset[TopicId]] = {}
    subscriptions = []
    for member in group.members.values():
        metadata = member.metadata
        reads = metadata.topic_names, metadata.topic_regex
        topic_ids = known.get(reads)
        units = 1
        if topic_ids is None:
            names = group.topics_of(metadata)
            topic_ids = known[reads] = frozenset(ids[name] for name in names if name in ids)
            units += len(names) // _UNIT_TOPICS
        subscriptions.append(
            MemberSubscription(
                member_id=member.member_id,
                instance_id=metadata.instance_id,
                rack_id=metadata.rack_id,
                topic_ids=topic_ids,
            )
        )
        if pace.is_full(units):
            yield
    return subscriptions
