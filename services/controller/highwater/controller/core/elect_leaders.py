"""ElectLeaders: elections on request, preferred or unclean (KIP-460)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from highwater.controller.core.change_leader import elect_preferred
from highwater.controller.core.election import Candidates, elect, is_unclean
from highwater.controller.core.hand_over import without
from highwater.controller.core.membership import ElectionRules, candidates_among, unclean_election
from highwater.controller.core.offline_replicas import OfflineByNode, nodes_without
from highwater.controller.core.outcome import (
    Changes,
    Decision,
    Refusal,
    UncleanElection,
    delta_of,
)
from highwater.controller.core.partition_index import PartitionKey
from highwater.controller.core.reassign import settled
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, PartitionState, TopicState
from highwater.model.ids import NO_NODE, InstanceId, TopicId
from highwater.model.steps import Steps, finish


class ElectionType(Enum):
    """The requested kind of leader."""

    PREFERRED = auto()
    """The first replica, from the ISR."""
    UNCLEAN = auto()
    """For partitions without a leader: any live replica, if no clean election is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionResult:
    """One partition's outcome; without a refusal it has a new leader."""

    topic_id: TopicId
    partition: int
    refusal: Refusal | None


Wanted = Sequence[tuple[TopicId, Sequence[int]]]
"""Partitions by topic, in the order of the request."""


def elect_leaders(
    image: ClusterImage,
    instance: InstanceId,
    wanted: Wanted | None,
    kind: ElectionType,
    rules: ElectionRules,
    *,
    offline: OfflineByNode,
) -> Decision[list[ElectionResult]]:
    """The elected leaders, with results in the order of `wanted`.

    If `wanted` is None, it is every partition of the instance, and the result leaves out partitions
    that need no election. Source: Kafka's `ReplicationControlManager.electLeaders`.
    """
    return finish(electing_leaders(image, instance, wanted, kind, rules, offline=offline))


def electing_leaders(
    image: ClusterImage,
    instance: InstanceId,
    wanted: Wanted | None,
    kind: ElectionType,
    rules: ElectionRules,
    *,
    offline: OfflineByNode,
) -> Steps[Decision[list[ElectionResult]]]:
    """`elect_leaders` in steps of one partition."""
    candidates = candidates_among(image.nodes.values())
    failed = nodes_without(offline)
    changed: Changes = {}
    results: list[ElectionResult] = []
    unclean: list[UncleanElection] = []
    for topic_id, numbers in _all_of(image, instance) if wanted is None else wanted:
        topic = image.topics.get(topic_id)
        if topic is not None and topic.instance != instance:
            topic = None
        of_topic = changed.setdefault(topic_id, {})
        for number in numbers:
            yield
            if topic is None or not 0 <= number < len(topic.partitions):
                outcome: PartitionState | Refusal = _refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                here = failed.get(topic_id, {}).get(number, frozenset())
                able = candidates.of_partition(failed=here, full=rules.avoided(topic_id, number))
                present = of_topic.get(number, topic.partitions[number])
                outcome = _elect(topic, present, kind, able, rules)
            refusal = outcome if isinstance(outcome, Refusal) else None
            if topic is not None and isinstance(outcome, PartitionState):
                of_topic[number] = outcome
                if is_unclean(present, outcome, able):
                    unclean.append(unclean_election(topic, outcome))
            if (
                refusal is None
                or wanted is not None
                or refusal.code != ErrorCode.ELECTION_NOT_NEEDED
            ):
                results.append(ElectionResult(topic_id=topic_id, partition=number, refusal=refusal))
    return Decision(delta=delta_of(changed), result=results, unclean=tuple(unclean))


def leaving(
    decision: Decision[list[ElectionResult]], keys: Collection[PartitionKey]
) -> Decision[list[ElectionResult]]:
    """The decision without partitions whose leaders lead on, since they were not asked to hand over."""
    results = [
        lags(key) if (key := (each.topic_id, each.partition)) in keys else each
        for each in decision.result
    ]
    return replace(decision, delta=without(decision.delta, keys), result=results)


def lags(key: tuple[TopicId, int]) -> ElectionResult:
    """The result if the present leader keeps leading because its successor lacks records."""
    refusal = Refusal(
        code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        message="the preferred leader did not catch up in time; the present one leads on",
    )
    return ElectionResult(topic_id=key[0], partition=key[1], refusal=refusal)


def _all_of(image: ClusterImage, instance: InstanceId) -> Iterable[tuple[TopicId, Sequence[int]]]:
    for topic in image.topics.values():
        if topic.instance == instance:
            yield topic.topic_id, range(len(topic.partitions))


def _elect(
    topic: TopicState,
    partition: PartitionState,
    kind: ElectionType,
    candidates: Candidates,
    rules: ElectionRules,
) -> PartitionState | Refusal:
    if kind is ElectionType.PREFERRED:
        if partition.leader == partition.replicas[0]:
            return _refusal(ErrorCode.ELECTION_NOT_NEEDED)
        preferred = elect_preferred(partition, candidates)
        return preferred or _refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    if partition.leader != NO_NODE:
        return _refusal(ErrorCode.ELECTION_NOT_NEEDED)
    min_isr = rules.min_isr(topic)
    after = elect(partition, candidates, min_isr=min_isr, unclean=True)
    if after is None or after.leader == NO_NODE:
        return _refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    return settled(partition, after, candidates, min_isr=min_isr) or after


def _refusal(code: ErrorCode) -> Refusal:
    return Refusal(code=code, message=code.message)
