"""Converts the cluster's metadata between protobuf and `highwater.model.cluster`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.metadata.convert_access import (
    STEP_ITEMS,
    acls_from_pb,
    acls_to_pb,
    client_quotas_from_pb,
    client_quotas_to_pb,
    scram_credentials_from_pb,
    scram_credentials_to_pb,
)
from highwater.metadata.convert_instances import instance_from_pb, instance_to_pb
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    GatewayListener,
    GatewayState,
    NodeState,
    PartitionState,
    TopicState,
)
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import NO_NODE, GatewayId, InstanceId, LeaderEpoch, NodeId, TopicId
from highwater.model.steps import Steps, finish, runs


def partition_to_pb(state: PartitionState) -> pb.PartitionState:
    """One partition as protobuf."""
    return pb.PartitionState(
        partition=state.partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        replicas=state.replicas,
        isr=state.isr,
        eligible_leaders=state.eligible_leaders,
        last_known_leader=state.last_known_leader,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
    )


def partition_from_pb(message: pb.PartitionState) -> PartitionState:
    """One partition from protobuf."""
    return PartitionState(
        partition=message.partition,
        leader=NodeId(message.leader),
        leader_epoch=LeaderEpoch(message.leader_epoch),
        partition_epoch=message.partition_epoch,
        replicas=_nodes(message.replicas),
        isr=_nodes(message.isr),
        eligible_leaders=_nodes(message.eligible_leaders),
        last_known_leader=NodeId(message.last_known_leader),
        adding_replicas=_nodes(message.adding_replicas),
        removing_replicas=_nodes(message.removing_replicas),
    )


def topic_to_pb(state: TopicState) -> pb.TopicState:
    """One topic as protobuf."""
    message = pb.TopicState()
    finish(_fill_topic(message, state))
    return message


def topic_from_pb(message: pb.TopicState) -> TopicState:
    """One topic from protobuf."""
    return finish(_topic_from_pb(message))


def node_to_pb(state: NodeState) -> pb.NodeState:
    """One node as protobuf."""
    return pb.NodeState(
        node_id=state.node_id,
        node_epoch=state.node_epoch,
        address=state.address,
        rack=state.rack,
        incarnation=state.incarnation,
        log_dirs=state.log_dirs,
        fenced=state.fenced,
        draining=state.draining,
        decommissioning=state.decommissioning,
        static_configs=state.static_configs,
    )


def node_from_pb(message: pb.NodeState) -> NodeState:
    """One node from protobuf."""
    return NodeState(
        node_id=NodeId(message.node_id),
        node_epoch=message.node_epoch,
        address=message.address,
        rack=message.rack,
        incarnation=message.incarnation,
        log_dirs=tuple(message.log_dirs),
        fenced=message.fenced,
        draining=message.draining,
        decommissioning=message.decommissioning,
        static_configs=dict(message.static_configs),
    )


def gateway_to_pb(state: GatewayState) -> pb.GatewayState:
    """One gateway as protobuf."""
    return pb.GatewayState(
        gateway_id=state.gateway_id,
        host=state.host,
        port=state.port,
        single_port=state.single_port,
        rack=state.rack,
        node_id=None if state.node_id == NO_NODE else state.node_id,
        listeners=[
            pb.GatewayListener(name=each.name, host=each.host, port=each.port)
            for each in state.listeners
        ],
        instance_port_shift=state.instance_port_shift,
    )


def gateway_from_pb(message: pb.GatewayState) -> GatewayState:
    """One gateway from protobuf."""
    return GatewayState(
        gateway_id=GatewayId(message.gateway_id),
        host=message.host,
        port=message.port,
        single_port=message.single_port,
        rack=message.rack,
        node_id=NodeId(message.node_id) if message.HasField("node_id") else NO_NODE,
        listeners=tuple(
            GatewayListener(name=each.name, host=each.host, port=each.port)
            for each in message.listeners
        ),
        instance_port_shift=message.instance_port_shift,
    )


def snapshot_to_pb(image: ClusterImage) -> pb.ClusterChange:
    """The whole image as a change that resets its receiver."""
    return finish(snapshot_to_pb_steps(image))


def snapshot_to_pb_steps(image: ClusterImage) -> Steps[pb.ClusterChange]:
    """`snapshot_to_pb` in steps."""
    message = pb.ClusterChange(
        revision=image.revision,
        controller_epoch=image.controller_epoch,
        reset=True,
        cluster_id=image.cluster_id,
        nodes=[node_to_pb(node) for node in image.nodes.values()],
        gateways=[gateway_to_pb(gateway) for gateway in image.gateways.values()],
        instances=[instance_to_pb(instance) for instance in image.instances.values()],
        node_gateways_changed=True,
        node_gateways=_node_gateways_to_pb(image.node_gateways),
        configs_changed=True,
        cluster_configs=image.cluster_configs,
        node_configs=_node_configs_to_pb(image.node_configs),
    )
    yield from _topics_to_pb(message, image.topics.values())
    yield from client_quotas_to_pb(message, image.client_quotas)
    yield from _client_metrics_to_pb(message, image.client_metrics)
    yield from _group_configs_to_pb(message, image.group_configs)
    yield from scram_credentials_to_pb(message, image.scram_credentials)
    yield from acls_to_pb(message.acls.extend, list(image.acls))
    return message


def delta_to_pb(
    delta: ClusterDelta,
    cluster_configs: Mapping[str, str],
    node_configs: Mapping[NodeId, Mapping[str, str]],
) -> pb.ClusterChange:
    """A delta as a change. The two config arguments are those of the image after the delta.

    On the wire both kinds of config are replaced together, so both are needed when one changed.
    """
    return finish(delta_to_pb_steps(delta, cluster_configs, node_configs))


def delta_to_pb_steps(
    delta: ClusterDelta,
    cluster_configs: Mapping[str, str],
    node_configs: Mapping[NodeId, Mapping[str, str]],
) -> Steps[pb.ClusterChange]:
    """`delta_to_pb` in steps."""
    configs_changed = delta.cluster_configs is not None or delta.node_configs is not None
    message = pb.ClusterChange(
        revision=delta.revision,
        controller_epoch=delta.controller_epoch,
        removed_topics=sorted(delta.removed_topics),
        nodes=[node_to_pb(node) for node in delta.nodes],
        removed_nodes=sorted(delta.removed_nodes),
        gateways=[gateway_to_pb(gateway) for gateway in delta.gateways],
        removed_gateways=sorted(delta.removed_gateways),
        instances=[instance_to_pb(instance) for instance in delta.instances],
        removed_instances=sorted(delta.removed_instances),
        node_gateways_changed=delta.node_gateways is not None,
        node_gateways=_node_gateways_to_pb(delta.node_gateways or {}),
        configs_changed=configs_changed,
        cluster_configs=cluster_configs if configs_changed else {},
        node_configs=_node_configs_to_pb(node_configs) if configs_changed else {},
    )
    yield from _topics_to_pb(message, delta.topics)
    for topic_id, states in delta.partitions.items():
        into = message.partitions.add(topic_id=topic_id)
        yield from _fill_partitions(into.partitions.extend, states)
    yield from client_quotas_to_pb(message, delta.client_quotas)
    yield from _client_metrics_to_pb(message, delta.client_metrics)
    yield from _group_configs_to_pb(message, delta.group_configs)
    yield from scram_credentials_to_pb(message, delta.scram_credentials)
    new = [acl for acl, stays in delta.acls.items() if stays]
    removed = [acl for acl, stays in delta.acls.items() if not stays]
    yield from acls_to_pb(message.acls.extend, new)
    yield from acls_to_pb(message.removed_acls.extend, removed)
    return message


def delta_from_pb(message: pb.ClusterChange) -> ClusterDelta:
    """The changes of a message that does not reset."""
    return finish(delta_from_pb_steps(message))


def delta_from_pb_steps(message: pb.ClusterChange) -> Steps[ClusterDelta]:
    """`delta_from_pb` in steps."""
    assert not message.reset
    topics = yield from _topics_from_pb(message)
    partitions: dict[TopicId, tuple[PartitionState, ...]] = {}
    for some in message.partitions:
        states = yield from _partitions_from_pb(some.partitions)
        partitions[TopicId(some.topic_id)] = states
    client_quotas = yield from client_quotas_from_pb(message)
    client_metrics = yield from _client_metrics_from_pb(message)
    group_configs = yield from _group_configs_from_pb(message)
    scram_credentials = yield from scram_credentials_from_pb(message)
    new_acls = yield from acls_from_pb(message.acls)
    removed_acls = yield from acls_from_pb(message.removed_acls)
    changed = message.configs_changed
    return ClusterDelta(
        revision=message.revision,
        controller_epoch=message.controller_epoch,
        topics=topics,
        partitions=partitions,
        removed_topics=frozenset(TopicId(topic_id) for topic_id in message.removed_topics),
        nodes=tuple(node_from_pb(node) for node in message.nodes),
        removed_nodes=frozenset(NodeId(node) for node in message.removed_nodes),
        gateways=tuple(gateway_from_pb(gateway) for gateway in message.gateways),
        removed_gateways=frozenset(GatewayId(gateway) for gateway in message.removed_gateways),
        instances=tuple(instance_from_pb(instance) for instance in message.instances),
        removed_instances=frozenset(InstanceId(i) for i in message.removed_instances),
        node_gateways=_node_gateways(message) if message.node_gateways_changed else None,
        cluster_configs=dict(message.cluster_configs) if changed else None,
        node_configs=_node_configs_from_pb(message) if changed else None,
        client_quotas=client_quotas,
        client_metrics=client_metrics,
        group_configs=group_configs,
        scram_credentials=scram_credentials,
        acls={**dict.fromkeys(new_acls, True), **dict.fromkeys(removed_acls, False)},
    )


def snapshot_from_pb(message: pb.ClusterChange) -> ClusterImage:
    """The image in a message that resets."""
    return finish(snapshot_from_pb_steps(message))


def snapshot_from_pb_steps(message: pb.ClusterChange) -> Steps[ClusterImage]:
    """`snapshot_from_pb` in steps."""
    assert message.reset
    found = yield from _topics_from_pb(message)
    topics = {state.topic_id: state for state in found}
    client_quotas = yield from client_quotas_from_pb(message)
    client_metrics = yield from _client_metrics_from_pb(message)
    group_configs = yield from _group_configs_from_pb(message)
    scram_credentials = yield from scram_credentials_from_pb(message)
    acls = yield from acls_from_pb(message.acls)
    return ClusterImage(
        revision=message.revision,
        cluster_id=message.cluster_id,
        controller_epoch=message.controller_epoch,
        nodes={state.node_id: state for state in map(node_from_pb, message.nodes)},
        gateways={state.gateway_id: state for state in map(gateway_from_pb, message.gateways)},
        node_gateways=_node_gateways(message),
        topics=topics,
        topic_ids={(state.instance, state.name): id_ for id_, state in topics.items()},
        instances={state.instance: state for state in map(instance_from_pb, message.instances)},
        cluster_configs=dict(message.cluster_configs),
        node_configs=_node_configs_from_pb(message),
        client_quotas=client_quotas,
        client_metrics=client_metrics,
        group_configs=group_configs,
        scram_credentials={
            key: credential
            for key, credential in scram_credentials.items()
            if credential is not None
        },
        acls=frozenset(acls),
    )


def _topics_to_pb(message: pb.ClusterChange, topics: Iterable[TopicState]) -> Steps[None]:
    for topic in topics:
        yield from _fill_topic(message.topics.add(), topic)


def _fill_topic(message: pb.TopicState, state: TopicState) -> Steps[None]:
    message.topic_id = state.topic_id
    message.instance = state.instance
    message.name = state.name
    message.configs.update(state.configs)
    message.internal = state.internal
    yield from _fill_partitions(message.partitions.extend, state.partitions)


def _fill_partitions(
    extend: Callable[[list[pb.PartitionState]], None], states: Sequence[PartitionState]
) -> Steps[None]:
    for some in runs(states, STEP_ITEMS):
        extend([partition_to_pb(state) for state in some])
        yield


def _topics_from_pb(message: pb.ClusterChange) -> Steps[tuple[TopicState, ...]]:
    topics: list[TopicState] = []
    for topic in message.topics:
        state = yield from _topic_from_pb(topic)
        topics.append(state)
    return tuple(topics)


def _topic_from_pb(message: pb.TopicState) -> Steps[TopicState]:
    partitions = yield from _partitions_from_pb(message.partitions)
    return TopicState(
        topic_id=TopicId(message.topic_id),
        instance=InstanceId(message.instance),
        name=message.name,
        partitions=partitions,
        configs=dict(message.configs),
        internal=message.internal,
    )


def _partitions_from_pb(
    messages: Sequence[pb.PartitionState],
) -> Steps[tuple[PartitionState, ...]]:
    states: list[PartitionState] = []
    for some in runs(messages, STEP_ITEMS):
        states += map(partition_from_pb, some)
        yield
    return tuple(states)


def _client_metrics_to_pb(
    message: pb.ClusterChange, subscriptions: Mapping[ClientMetricsKey, Mapping[str, str]]
) -> Steps[None]:
    for some in runs(list(subscriptions.items()), STEP_ITEMS):
        message.client_metrics.extend(
            pb.ClientMetricsSubscription(instance=key.instance, name=key.name, configs=configs)
            for key, configs in some
        )
        yield


def _client_metrics_from_pb(
    message: pb.ClusterChange,
) -> Steps[dict[ClientMetricsKey, Mapping[str, str]]]:
    subscriptions: dict[ClientMetricsKey, Mapping[str, str]] = {}
    for some in runs(message.client_metrics, STEP_ITEMS):
        for one in some:
            subscriptions[ClientMetricsKey(InstanceId(one.instance), one.name)] = dict(one.configs)
        yield
    return subscriptions


def _group_configs_to_pb(
    message: pb.ClusterChange, groups: Mapping[GroupConfigKey, Mapping[str, str]]
) -> Steps[None]:
    for some in runs(list(groups.items()), STEP_ITEMS):
        message.group_configs.extend(
            pb.GroupConfigs(instance=key.instance, group_id=key.group_id, configs=configs)
            for key, configs in some
        )
        yield


def _group_configs_from_pb(
    message: pb.ClusterChange,
) -> Steps[dict[GroupConfigKey, Mapping[str, str]]]:
    groups: dict[GroupConfigKey, Mapping[str, str]] = {}
    for some in runs(message.group_configs, STEP_ITEMS):
        for one in some:
            groups[GroupConfigKey(InstanceId(one.instance), one.group_id)] = dict(one.configs)
        yield
    return groups


def _nodes(ids: Sequence[int]) -> tuple[NodeId, ...]:
    """Node ids are ints. The slice copies them: iterating over protobuf's lists is twice as slow."""
    return cast("tuple[NodeId, ...]", tuple(ids[:])) if ids else ()


def _node_gateways_to_pb(gateways: Mapping[NodeId, GatewayId]) -> dict[int, str]:
    return {int(node): str(gateway) for node, gateway in gateways.items()}


def _node_gateways(message: pb.ClusterChange) -> dict[NodeId, GatewayId]:
    return {NodeId(node): GatewayId(g) for node, g in message.node_gateways.items()}


def _node_configs_to_pb(configs: Mapping[NodeId, Mapping[str, str]]) -> dict[int, pb.Configs]:
    return {node: pb.Configs(values=values) for node, values in configs.items()}


def _node_configs_from_pb(message: pb.ClusterChange) -> dict[NodeId, Mapping[str, str]]:
    return {NodeId(node): dict(c.values) for node, c in message.node_configs.items()}
