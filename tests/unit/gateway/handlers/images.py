"""Images of a cluster, as handlers see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from highwater.model.cluster import (
    ClusterImage,
    GatewayListener,
    GatewayState,
    NodeState,
    PartitionState,
    TopicState,
)
from highwater.model.coordinator_topics import coordinator_topic_name
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    SYSTEM_INSTANCE,
    TRANSACTION_STATE_TOPIC,
    GatewayId,
    InstanceId,
    LeaderEpoch,
    NodeId,
    TopicId,
)

GATEWAY = GatewayId("gateway-1")
OTHER = InstanceId("other-team")


def topic_id(name: str) -> TopicId:
    return TopicId(name.encode().ljust(16, b"-")[-16:])


def partition(number: int, leader: int, **changes: Any) -> PartitionState:
    state = PartitionState(
        partition=number,
        leader=NodeId(leader),
        leader_epoch=LeaderEpoch(5 + number),
        partition_epoch=0,
        replicas=(NodeId(max(leader, 1)),),
        isr=(NodeId(max(leader, 1)),),
    )
    return replace(state, **changes)


def topic(name: str, leaders: Sequence[int] = (1,), **changes: Any) -> TopicState:
    state = TopicState(
        topic_id=topic_id(name),
        instance=DEFAULT_INSTANCE,
        name=name,
        partitions=tuple(partition(number, leader) for number, leader in enumerate(leaders)),
        internal=name in INTERNAL_TOPICS,
    )
    return replace(state, **changes)


def group_topic(leaders: Sequence[int] = (1, 2, 3)) -> TopicState:
    return topic(GROUP_METADATA_TOPIC, leaders)


def shared_topic(name: str, leaders: Sequence[int] = (1, 2, 3)) -> TopicState:
    """The internal topic of all instances but the default one."""
    shared = coordinator_topic_name(name, OTHER)
    return topic(shared, leaders, instance=SYSTEM_INSTANCE, internal=True)


def transaction_topic(leaders: Sequence[int] = (1, 2, 3)) -> TopicState:
    return topic(TRANSACTION_STATE_TOPIC, leaders)


def node(number: int, **changes: Any) -> NodeState:
    state = NodeState(
        node_id=NodeId(number),
        node_epoch=10 + number,
        address=f"10.0.0.{number}:9400",
        rack=f"rack-{number}",
        incarnation=f"incarnation-{number}",
        log_dirs=(f"/data/{number}",),
        fenced=False,
    )
    return replace(state, **changes)


def image_of(
    *topics: TopicState,
    nodes: Iterable[NodeState] | None = None,
    revision: int = 100,
    **changes: Any,
) -> ClusterImage:
    """Three nodes behind one gateway on 10.1.1.1, port 9092 and the block after it."""
    members = [node(1), node(2), node(3)] if nodes is None else list(nodes)
    gateway = GatewayState(gateway_id=GATEWAY, host="10.1.1.1", port=9092, single_port=False)
    image = ClusterImage(
        revision=revision,
        cluster_id="cluster-of-tests",
        nodes={one.node_id: one for one in members},
        gateways={GATEWAY: gateway},
        node_gateways={one.node_id: GATEWAY for one in members},
        topics={one.topic_id: one for one in topics},
        topic_ids={(one.instance, one.name): one.topic_id for one in topics},
    )
    return replace(image, **changes)


def with_listener(image: ClusterImage, name: str, host: str, port: int) -> ClusterImage:
    """The same image, in which GATEWAY has a further listener."""
    listener = GatewayListener(name=name, host=host, port=port)
    gateway = image.gateways[GATEWAY]
    gateway = replace(gateway, listeners=(*gateway.listeners, listener))
    return replace(image, gateways={**image.gateways, GATEWAY: gateway})
