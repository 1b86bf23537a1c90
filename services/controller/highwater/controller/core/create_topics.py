"""CreateTopics: admission by Kafka's rules, placement, and the new topics."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from highwater.controller.core.change_instances import closed_instance
from highwater.controller.core.config_rules import ConfigRules
from highwater.controller.core.instance_limits import PartitionAllowance, message_bytes_error
from highwater.controller.core.outcome import PENDING_REVISION, Decision, Refusal, unchanged
from highwater.controller.core.placement import RandomBelow, place_replicas
from highwater.controller.core.topic_names import collision_key
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta, ClusterImage, PartitionState, TopicState
from highwater.model.coordinator_topics import COORDINATOR_TOPICS
from highwater.model.ids import (
    INTERNAL_REPLICAS_MAX,
    INTERNAL_TOPICS,
    SYSTEM_INSTANCE,
    InstanceId,
    LeaderEpoch,
    NodeId,
    TopicId,
)
from highwater.model.topic_names import invalid_topic_name

PARTITIONS_PER_TOPIC_MAX: Final = 10_000
"""As many replicas as a node is planned for; a larger topic is a mistake."""

RECORDS_PER_REQUEST_MAX: Final = 10_000
"""Kafka's (`QuorumController.MAX_RECORDS_PER_USER_OP`): one for each topic, config and partition."""

TOPICS_WITH_MORE_RECORDS_MAX: Final = 1_000
PARTITIONS_PER_REQUEST_MAX: Final = 20_000
"""So few topics may have this many partitions beyond Kafka's limit, for the sake of large topics. The
controller's loop stops while it places them."""

DEFAULT: Final = -1
"""A count that the request leaves to the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWish:
    """One requested topic; counts of -1 mean the default."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(partition, replicas) of a manual assignment; both counts are then -1."""
    configs: Mapping[str, str] = field(default_factory=dict)
    internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """Partition and replica counts of topics that leave them open."""

    partitions: int = 1
    replication_factor: int = 1
    internal_partitions: int = 50
    internal_replication_factor: int = 0
    """0: as many as there are nodes, at most INTERNAL_REPLICAS_MAX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationRules:
    """Inputs of creation: defaults, config rules, randomness and new ids."""

    defaults: TopicDefaults
    configs: ConfigRules
    random_below: RandomBelow
    new_topic_id: Callable[[], TopicId]


CreationResult = TopicState | Refusal


def create_topics(
    image: ClusterImage, instance: InstanceId, wishes: Sequence[TopicWish], rules: CreationRules
) -> Decision[list[CreationResult]]:
    """The new topics, results in the order of the wishes. A refused topic does not stop others."""
    refused = closed_instance(image, instance) or _over_limit(wishes)
    if refused is not None:
        return unchanged([refused] * len(wishes))
    allowance = PartitionAllowance(image, instance)
    named = Counter(wish.name for wish in wishes)
    taken = {collision_key(name): name for (owner, name) in image.topic_ids if owner == instance}
    results: list[CreationResult] = []
    for wish in wishes:
        refusal = _refuse(image, instance, wish, taken, rules.configs)
        if named[wish.name] > 1:
            refusal = _refusal(ErrorCode.INVALID_REQUEST, "the topic stands twice in the request")
        if refusal is not None:
            results.append(refusal)
            continue
        replicas = _replicas(image, wish, rules)
        if isinstance(replicas, Refusal):
            results.append(replicas)
            continue
        refusal = None if wish.internal else allowance.take(len(replicas), wish.name)
        if refusal is not None:
            results.append(refusal)
            continue
        taken[collision_key(wish.name)] = wish.name
        results.append(
            TopicState(
                topic_id=rules.new_topic_id(),
                instance=instance,
                name=wish.name,
                partitions=tuple(
                    new_partition(image, number, nodes) for number, nodes in enumerate(replicas)
                ),
                configs=dict(wish.configs),
                internal=wish.internal,
            )
        )
    created = tuple(result for result in results if isinstance(result, TopicState))
    delta = ClusterDelta(revision=PENDING_REVISION, topics=created) if created else None
    return Decision(delta=delta, result=results)


def new_partition(image: ClusterImage, number: int, replicas: Sequence[NodeId]) -> PartitionState:
    """A new partition: all replicas on live nodes are in sync, since the log is empty.

    The caller has checked that at least one replica is alive.
    """
    alive = tuple(node for node in replicas if _may_lead(image, node))
    assert alive
    return PartitionState(
        partition=number,
        leader=alive[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
        replicas=tuple(replicas),
        isr=alive,
        last_known_leader=alive[0],
    )


def usable_racks(image: ClusterImage, factor: int) -> dict[NodeId, str]:
    """Nodes for new replicas, with their racks: the live nodes, or all nodes if those are too few.

    Nodes that are being decommissioned are left out.
    """
    staying = [n for n in image.nodes.values() if not n.decommissioning]
    alive = {n.node_id: n.rack for n in staying if _may_lead(image, n.node_id)}
    if factor <= len(alive) or not alive:
        return alive
    return {n.node_id: n.rack for n in staying}


def too_few_nodes(image: ClusterImage, factor: int) -> Refusal:
    """The refusal of a replication factor for which there are too few nodes, in Kafka's words."""
    why = "All brokers are currently fenced."
    staying = sum(not n.decommissioning for n in image.nodes.values())
    if factor > staying:
        why = (
            f"The target replication factor of {factor} cannot be reached because only "
            f"{staying} broker(s) are registered."
        )
        if staying < len(image.nodes):
            why += f" {len(image.nodes) - staying} more are being decommissioned."
    return _refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {factor} time(s): {why}",
    )


def check_assignment(
    image: ClusterImage, assignments: Iterable[tuple[int, tuple[int, ...]]], first_partition: int
) -> list[tuple[NodeId, ...]] | Refusal:
    """A manual assignment of the partitions `first_partition`, ... as replicas in order."""
    result: list[tuple[NodeId, ...]] = []
    for expected, (number, replicas) in enumerate(sorted(assignments), first_partition):
        if number != expected:
            return _bad_assignment(f"partitions must be consecutive from {first_partition} on")
        if not replicas or len(set(replicas)) < len(replicas):
            return _bad_assignment(f"partition {number} has no replicas, or one twice")
        if result and len(replicas) != len(result[0]):
            return _bad_assignment("partitions differ in their number of replicas")
        unknown = [node for node in replicas if node not in image.nodes]
        if unknown:
            return _bad_assignment(f"partition {number} names unregistered node {unknown[0]}")
        nodes = tuple(NodeId(node) for node in replicas)
        leaving = [node for node in nodes if image.nodes[node].decommissioning]
        if leaving:
            return _bad_assignment(
                f"partition {number} names node {leaving[0]}, which is being decommissioned"
            )
        if not any(_may_lead(image, node) for node in nodes):
            return _bad_assignment(f"all replicas of partition {number} are offline")
        result.append(nodes)
    return result


def _may_lead(image: ClusterImage, node: NodeId) -> bool:
    state = image.nodes[node]
    return not state.fenced and not state.draining


def _over_limit(wishes: Sequence[TopicWish]) -> Refusal | None:
    partitions = sum(max(1, wish.partitions, len(wish.assignments)) for wish in wishes)
    records = len(wishes) + sum(len(wish.configs) for wish in wishes) + partitions
    if records <= RECORDS_PER_REQUEST_MAX or (
        len(wishes) <= TOPICS_WITH_MORE_RECORDS_MAX and partitions <= PARTITIONS_PER_REQUEST_MAX
    ):
        return None
    return _refusal(
        ErrorCode.POLICY_VIOLATION,
        f"a request may create {RECORDS_PER_REQUEST_MAX} topics, configs and partitions together, "
        f"or {TOPICS_WITH_MORE_RECORDS_MAX} topics with {PARTITIONS_PER_REQUEST_MAX} partitions",
    )


def _refuse(
    image: ClusterImage,
    instance: InstanceId,
    wish: TopicWish,
    taken: Mapping[str, str],
    configs: ConfigRules,
) -> Refusal | None:
    """Why a wish is refused by itself or beside other topics; counts are checked later."""
    why = invalid_topic_name(wish.name)
    if why is not None:
        return _refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
    if (instance, wish.name) in image.topic_ids:
        return _refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{wish.name}' already exists")
    if not wish.internal and (wish.name in INTERNAL_TOPICS or instance == SYSTEM_INSTANCE):
        return _refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic '{wish.name}' is created by the cluster"
        )
    if wish.internal and (instance, wish.name) not in COORDINATOR_TOPICS:
        return _refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"instance '{instance}' has no internal topic '{wish.name}'",
        )
    other = taken.get(collision_key(wish.name))
    if other is not None:
        return _refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic '{wish.name}' collides with existing topic '{other}'",
        )
    why = configs.topic_error({}, wish.configs)
    if not wish.internal:
        why = why or message_bytes_error(image, instance, wish.configs)
    if why is not None:
        return _refusal(ErrorCode.INVALID_CONFIG, why)
    return None


def _replicas(
    image: ClusterImage, wish: TopicWish, rules: CreationRules
) -> list[tuple[NodeId, ...]] | Refusal:
    if wish.assignments:
        if wish.partitions != DEFAULT or wish.replication_factor != DEFAULT:
            return _refusal(
                ErrorCode.INVALID_REQUEST,
                "a manual assignment excludes a number of partitions and a replication factor",
            )
        return check_assignment(image, wish.assignments, 0)
    defaults = rules.defaults
    count, factor = wish.partitions, wish.replication_factor
    if count == DEFAULT:
        count = defaults.internal_partitions if wish.internal else defaults.partitions
    if not 1 <= count <= PARTITIONS_PER_TOPIC_MAX:
        return _refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"number of partitions is {count}, not within 1 and {PARTITIONS_PER_TOPIC_MAX}",
        )
    if factor == DEFAULT:
        factor = _default_factor(image, wish, defaults)
    if factor < 1:
        return _refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    racks = usable_racks(image, factor)
    if factor > len(racks):
        return too_few_nodes(image, factor)
    placed = place_replicas(
        racks, partitions=count, replication_factor=factor, random_below=rules.random_below
    )
    if not all(any(_may_lead(image, node) for node in replicas) for replicas in placed):
        return _refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR, "too few nodes are online for this factor"
        )
    return placed


def _default_factor(image: ClusterImage, wish: TopicWish, defaults: TopicDefaults) -> int:
    if not wish.internal:
        return defaults.replication_factor
    staying = sum(not n.decommissioning for n in image.nodes.values())
    return defaults.internal_replication_factor or max(1, min(INTERNAL_REPLICAS_MAX, staying))


def _bad_assignment(message: str) -> Refusal:
    return _refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _refusal(code: ErrorCode, message: str) -> Refusal:
    return Refusal(code=code, message=message)
