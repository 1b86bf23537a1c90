"""AlterPartition: a leader proposes a new ISR by compare-and-set (KIP-497, KIP-903)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from highwater.controller.core.election import Candidates, after_isr_change
from highwater.controller.core.offline_replicas import OfflineByNode, is_offline
from highwater.controller.core.outcome import Changes, Decision, Refusal, delta_of
from highwater.controller.core.reassign import completed, is_moving
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterImage, PartitionState, TopicState
from highwater.model.ids import NodeId, TopicId

MinIsr = Callable[[TopicState], int]
"""min.insync.replicas of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One partition's proposed ISR, and the epochs that its leader has seen."""

    topic_id: TopicId
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    isr_node_epochs: tuple[int, ...]
    """The node epochs under which these replicas fetched, parallel to `isr`; -1 is not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrResult:
    """The partition as it stands after the call, and why the proposal failed if it did."""

    refusal: Refusal | None
    state: PartitionState | None


def alter_partitions(
    image: ClusterImage,
    leader: NodeId,
    proposals: Sequence[Proposal],
    min_isr: MinIsr,
    *,
    offline: OfflineByNode | None = None,
    leader_first: bool = False,
) -> Decision[list[IsrResult]]:
    """The new states, in the order of the proposals, which are decided one by one.

    `leader` is the caller, whose node epoch has been checked. A replica whose log has failed is
    not eligible: its last fetch may be older than the failure. If the new ISR suffices for a
    reassignment, that is completed; the leader learns of it from the image, as the leader epoch has
    grown. With `leader_first`, a leader that the reassignment removes must hand over before that.
    """
    failed = offline or {}
    changed: Changes = {}
    results: list[IsrResult] = []
    for proposal in proposals:
        topic = image.topics.get(proposal.topic_id)
        if topic is None:
            results.append(_result(ErrorCode.UNKNOWN_TOPIC_ID, "the topic is unknown", None))
            continue
        if not 0 <= proposal.partition < len(topic.partitions):
            results.append(
                _result(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition is unknown", None)
            )
            continue
        known = changed.get(topic.topic_id, {})
        present = known.get(proposal.partition, topic.partitions[proposal.partition])
        refusal = _refuse(image, leader, proposal, present, failed)
        if refusal is not None:
            results.append(IsrResult(refusal=refusal, state=present))
            continue
        isr = tuple(NodeId(node) for node in proposal.isr)
        after = after_isr_change(present, isr, min_isr=min_isr(topic))
        if is_moving(after):
            able = _able(image, failed, topic.topic_id, proposal.partition)
            after = completed(after, able, min_isr=min_isr(topic), leader_first=leader_first)
        changed.setdefault(topic.topic_id, {})[proposal.partition] = after
        results.append(IsrResult(refusal=None, state=after))
    return Decision(delta=delta_of(changed), result=results)


def _able(
    image: ClusterImage, offline: OfflineByNode, topic_id: TopicId, partition: int
) -> Candidates:
    nodes = image.nodes.values()
    return Candidates(
        alive=frozenset(
            n.node_id
            for n in nodes
            if not n.fenced and not is_offline(offline, n.node_id, topic_id, partition)
        ),
        draining=frozenset(n.node_id for n in nodes if n.draining),
    )


def _refuse(
    image: ClusterImage,
    leader: NodeId,
    proposal: Proposal,
    present: PartitionState,
    offline: OfflineByNode,
) -> Refusal | None:
    """Kafka's checks in Kafka's order (`ReplicationControlManager.validateAlterPartitionData`)."""
    if proposal.leader_epoch > present.leader_epoch:
        return _refusal(ErrorCode.NOT_CONTROLLER, "the leader epoch is newer than the controller's")
    if proposal.partition_epoch > present.partition_epoch:
        return _refusal(ErrorCode.NOT_CONTROLLER, "the partition epoch is newer than known here")
    if proposal.leader_epoch < present.leader_epoch:
        return _refusal(ErrorCode.FENCED_LEADER_EPOCH, f"epoch is {present.leader_epoch} by now")
    if present.leader != leader:
        return _refusal(ErrorCode.INVALID_REQUEST, f"node {present.leader} leads the partition")
    if proposal.partition_epoch < present.partition_epoch:
        return _refusal(
            ErrorCode.INVALID_UPDATE_VERSION, f"partition epoch is {present.partition_epoch}"
        )
    isr = proposal.isr
    if len(set(isr)) < len(isr) or not set(isr) <= set(present.replicas):
        return _refusal(ErrorCode.INVALID_REQUEST, "the ISR is not a set of replicas")
    if leader not in isr:
        return _refusal(ErrorCode.INVALID_REQUEST, "the leader is not in the ISR")
    if len(proposal.isr_node_epochs) not in (0, len(isr)):
        return _refusal(ErrorCode.INVALID_REQUEST, "node epochs and ISR differ in length")
    epochs = proposal.isr_node_epochs or (-1,) * len(isr)
    for node, epoch in zip(isr, epochs, strict=True):
        why = _ineligible(image, NodeId(node), epoch, present)
        if why is None and is_offline(offline, NodeId(node), proposal.topic_id, proposal.partition):
            why = f"the log on node {node} has failed"
        if why is not None:
            return _refusal(ErrorCode.INELIGIBLE_REPLICA, why)
    return None


def _ineligible(
    image: ClusterImage, node: NodeId, epoch: int, present: PartitionState
) -> str | None:
    """Why a replica may not be in the ISR; a draining leader may stay in its own."""
    state = image.nodes.get(node)
    if state is None or state.fenced:
        return f"node {node} is fenced"
    if state.draining and node != present.leader:
        return f"node {node} shuts down"
    if epoch not in (-1, state.node_epoch):
        return f"node {node} was registered again since it fetched"
    return None


def _result(code: ErrorCode, message: str, state: PartitionState | None) -> IsrResult:
    return IsrResult(refusal=_refusal(code, message), state=state)


def _refusal(code: ErrorCode, message: str) -> Refusal:
    return Refusal(code=code, message=message)
