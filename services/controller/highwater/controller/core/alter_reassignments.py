"""AlterPartitionReassignments: partitions are sent to other nodes, or called back (KIP-455)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from highwater.controller.core.election import Candidates
from highwater.controller.core.membership import ElectionRules, candidates_among
from highwater.controller.core.offline_replicas import OfflineByNode, nodes_without
from highwater.controller.core.outcome import Changes, Decision, Refusal, delta_of
from highwater.controller.core.reassign import (
    cancel,
    is_moving,
    start,
    target_replicas,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, PartitionState, TopicState
from highwater.model.ids import InstanceId, NodeId, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """Where one partition shall go; `replicas` None calls its present move back."""

    topic_id: TopicId
    partition: int
    replicas: tuple[int, ...] | None


def alter_reassignments(
    image: ClusterImage,
    instance: InstanceId,
    wanted: Sequence[Reassignment],
    rules: ElectionRules,
    *,
    offline: OfflineByNode,
    may_change_factor: bool = True,
    leader_first: bool = False,
) -> Decision[list[Refusal | None]]:
    """The new states, results in the order of `wanted`; each stands for itself, None is success.

    With `leader_first` no move removes a leader that lives, nor does the end of one that was adding
    it: that leader hands over first, and such a partition still moves after the call.
    Source: Kafka's `ReplicationControlManager.alterPartitionReassignments`.
    """
    candidates = candidates_among(image.nodes.values())
    failed = nodes_without(offline)
    changed: Changes = {}
    results: list[Refusal | None] = []
    for one in wanted:
        topic = image.topics.get(one.topic_id)
        if (
            topic is None
            or topic.instance != instance
            or not 0 <= one.partition < len(topic.partitions)
        ):
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(_refusal(unknown, unknown.message))
            continue
        here = failed.get(topic.topic_id, {}).get(one.partition, frozenset())
        able = replace(candidates, alive=candidates.alive - here) if here else candidates
        known = changed.get(topic.topic_id, {})
        present = known.get(one.partition, topic.partitions[one.partition])
        outcome = _alter(
            image, topic, present, one.replicas, able, rules, may_change_factor, leader_first
        )
        if isinstance(outcome, PartitionState):
            changed.setdefault(topic.topic_id, {})[one.partition] = outcome
        results.append(outcome if isinstance(outcome, Refusal) else None)
    return Decision(delta=delta_of(changed), result=results)


def _alter(
    image: ClusterImage,
    topic: TopicState,
    partition: PartitionState,
    replicas: tuple[int, ...] | None,
    candidates: Candidates,
    rules: ElectionRules,
    may_change_factor: bool,
    leader_first: bool,
) -> PartitionState | Refusal | None:
    """None if the partition is there already, or on its way."""
    min_isr = rules.min_isr(topic)
    if replicas is None:
        if not is_moving(partition):
            none = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            return _refusal(none, none.message)
        after = cancel(partition, candidates, min_isr=min_isr, leader_first=leader_first)
        if after is partition:
            return None
        return after or _refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}-{partition.partition} because "
            "it would require an unclean leader election.",
        )
    refusal = _refuse_target(image, partition, replicas)
    if refusal is None and not may_change_factor:
        refusal = _refuse_factor(partition, len(replicas))
    if refusal is not None:
        return refusal
    target = tuple(NodeId(node) for node in replicas)
    return start(partition, target, candidates, min_isr=min_isr, leader_first=leader_first)


def _refuse_target(
    image: ClusterImage, partition: PartitionState, replicas: tuple[int, ...]
) -> Refusal | None:
    """In Kafka's words (`ReplicationControlManager.validateManualPartitionAssignment`)."""
    if not replicas:
        return _bad("The manual partition assignment includes an empty replica list.")
    for place, node in enumerate(replicas):
        if node in replicas[:place]:
            return _bad(
                f"The manual partition assignment includes the broker {node} more than once."
            )
        state = image.nodes.get(NodeId(node))
        if state is None:
            return _bad(
                f"The manual partition assignment includes broker {node}, but no such broker is "
                "registered."
            )
        if state.decommissioning and node not in partition.replicas:
            return _bad(f"Broker {node} is being decommissioned and takes no new replicas.")
    return None


def _refuse_factor(partition: PartitionState, wanted: int) -> Refusal | None:
    present = len(target_replicas(partition))
    if wanted == present:
        return None
    return _refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"The replication factor is changed from {present} to {wanted}",
    )


def _bad(message: str) -> Refusal:
    return _refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _refusal(code: ErrorCode, message: str) -> Refusal:
    return Refusal(code=code, message=message)
