"""The cluster image in the store: turns a snapshot into an image, and a delta into operations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from highwater.controller.store import keys
from highwater.controller.store.head import HEAD, Head, head_of
from highwater.controller.store.port import Delete, DeletePrefix, Entry, Operation, Put, Snapshot
from highwater.model.acls import Acl
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    NodeState,
    PartitionState,
    TopicState,
)
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import NodeId, TopicId
from highwater.model.scram import ScramCredential, ScramKey
from highwater.model.steps import Steps, finish

_STEP_ENTRIES: Final = 16
"""Keys that are decoded in one step: about a quarter of a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The contents of the store at takeover."""

    image: ClusterImage
    next_producer_id: int
    head: Head
    orphans: tuple[TopicId, ...] = ()
    """Topics that have only partitions left, after an interrupted creation or deletion."""
    login_secret: bytes = b""
    """Not in the image, since gateways alone get it. Empty before there is any."""


@dataclass(slots=True)
class _Found:
    """Entries sorted by kind."""

    cluster_id: str = ""
    login_secret: bytes = b""
    next_producer_id: int = 0
    head: Head | None = None
    registrations: dict[int, Entry] = field(default_factory=dict)
    states: dict[int, Entry] = field(default_factory=dict)
    topics: dict[TopicId, Entry] = field(default_factory=dict)
    partitions: dict[TopicId, list[PartitionState]] = field(default_factory=dict)


def load(snapshot: Snapshot) -> StoredState:
    """Everything in the store as an image; nodes have no gateways assigned yet.

    Raises UnknownFormatError.
    """
    return finish(loading(snapshot))


_ACCESS: Final = frozenset(("client_quotas", "scram_credentials", "acls"))


@dataclass(slots=True)
class _Access:
    """Who may come, what they may do and how much, as far as it is read."""

    client_quotas: dict[ClientQuotaKey, Mapping[str, float]] = field(default_factory=dict)
    scram: dict[ScramKey, ScramCredential] = field(default_factory=dict)
    acls: set[Acl] = field(default_factory=set)

    def add(self, kind: str, rest: str, fields: Mapping[str, Any]) -> None:
        """Takes one value of the kinds of _ACCESS."""
        if kind == "client_quotas":
            self.client_quotas[keys.decode_client_quota(rest)] = fields["values"]
        elif kind == "acls":
            self.acls.add(keys.decode_acl(rest))
        else:
            self.scram[keys.decode_scram_key(rest)] = keys.decode_scram_credential(fields)


def loading(snapshot: Snapshot) -> Steps[StoredState]:
    """`load` in steps."""
    found = _Found()
    image = ClusterImage(revision=snapshot.revision, cluster_id="")
    gateways = dict(image.gateways)
    instances = dict(image.instances)
    node_configs: dict[NodeId, Mapping[str, str]] = {}
    cluster_configs: Mapping[str, str] = {}
    access = _Access()
    client_metrics: dict[ClientMetricsKey, Mapping[str, str]] = {}
    group_configs: dict[GroupConfigKey, Mapping[str, str]] = {}
    for number, entry in enumerate(snapshot.entries):
        if number % _STEP_ENTRIES == 0:
            yield
        kind, _, rest = entry.key.partition("/")
        if kind == "gateways":
            gateway = keys.decode_gateway(rest, keys.decode(entry.key, entry.value))
            gateways[gateway.gateway_id] = gateway
        elif kind == "instances":
            instance = keys.decode_instance(rest, keys.decode(entry.key, entry.value))
            instances[instance.instance] = instance
        elif kind == "client_metrics":
            configs = keys.decode(entry.key, entry.value)["values"]
            client_metrics[keys.decode_client_metrics(rest)] = configs
        elif kind == "group_configs":
            configs = keys.decode(entry.key, entry.value)["values"]
            group_configs[keys.decode_group_configs(rest)] = configs
        elif kind in _ACCESS:
            access.add(kind, rest, keys.decode(entry.key, entry.value))
        elif entry.key == keys.CLUSTER_CONFIGS:
            cluster_configs = keys.decode(entry.key, entry.value)["values"]
        elif kind == "configs":
            node = NodeId(int(rest.partition("/")[2]))
            node_configs[node] = keys.decode(entry.key, entry.value)["values"]
        else:
            _sort(found, kind, rest, entry)
    topics: dict[TopicId, TopicState] = {}
    for topic_id, topic in _topics(found):
        topics[topic_id] = topic
        yield
    head = found.head or Head(revision=snapshot.revision)
    return StoredState(
        head=head,
        image=replace(
            image,
            revision=head.revision,
            cluster_id=found.cluster_id,
            nodes=_nodes(found),
            gateways=gateways,
            instances=instances,
            topics=topics,
            topic_ids={(t.instance, t.name): t.topic_id for t in topics.values()},
            cluster_configs=cluster_configs,
            node_configs=node_configs,
            client_quotas=access.client_quotas,
            client_metrics=client_metrics,
            group_configs=group_configs,
            scram_credentials=access.scram,
            acls=frozenset(access.acls),
        ),
        next_producer_id=found.next_producer_id,
        orphans=tuple(found.partitions.keys() - topics.keys()),
        login_secret=found.login_secret,
    )


def operations(before: ClusterImage, delta: ClusterDelta) -> list[Operation]:
    """The operations after which the store holds `before.apply(delta)`, safe to interrupt.

    Partitions come before configs, which `change_min_isr` relies on, and before their topics.
    `node_gateways` is computed, never stored.
    """
    return finish(making_operations(before, delta))


def making_operations(before: ClusterImage, delta: ClusterDelta) -> Steps[list[Operation]]:
    """`operations` in steps."""
    result: list[Operation] = []
    for node in delta.nodes:
        result += _node_operations(before.nodes.get(node.node_id), node)
    for topic_id, states in delta.partitions.items():
        known = before.topics[topic_id].partitions
        for state in states:
            if known[state.partition] != state:
                result.append(_put_partition(topic_id, state))
                yield
    for topic in delta.topics:
        yield from _topic_operations(result, before.topics.get(topic.topic_id), topic)
    for topic_id in sorted(delta.removed_topics):
        result += [
            Delete(key=keys.topic(topic_id)),
            DeletePrefix(prefix=keys.partitions(topic_id)),
        ]
    result += [DeletePrefix(prefix=f"{keys.NODES}{node}/") for node in sorted(delta.removed_nodes)]
    result += [
        Put(key=keys.gateway(g.gateway_id), value=keys.encode_gateway(g)) for g in delta.gateways
    ]
    result += [Delete(key=keys.gateway(g)) for g in sorted(delta.removed_gateways)]
    result += [
        Put(key=keys.instance(i.instance), value=keys.encode_instance(i)) for i in delta.instances
    ]
    result += [Delete(key=keys.instance(i)) for i in sorted(delta.removed_instances)]
    if delta.cluster_configs is not None:
        value = keys.encode({"values": dict(delta.cluster_configs)})
        result.append(Put(key=keys.CLUSTER_CONFIGS, value=value))
    if delta.node_configs is not None:
        result += _node_config_operations(before.node_configs, delta.node_configs)
    for quota_key, values in delta.client_quotas.items():
        result.append(_client_quota_operation(quota_key, values))
        yield
    for metrics_key, configs in delta.client_metrics.items():
        result.append(_client_metrics_operation(metrics_key, configs))
        yield
    for group, configs in delta.group_configs.items():
        result.append(_group_configs_operation(group, configs))
        yield
    for scram_key, credential in delta.scram_credentials.items():
        result.append(_scram_operation(scram_key, credential))
        yield
    for acl, stays in delta.acls.items():
        key = keys.acl(acl)
        result.append(Put(key=key, value=keys.encode({})) if stays else Delete(key=key))
        yield
    return result


def _sort(found: _Found, kind: str, rest: str, entry: Entry) -> None:
    if kind == "partitions":
        topic_hex, _, number = rest.partition("/")
        state = keys.decode_partition(int(number), keys.decode(entry.key, entry.value))
        found.partitions.setdefault(TopicId(bytes.fromhex(topic_hex)), []).append(state)
    elif kind == "topics":
        found.topics[TopicId(bytes.fromhex(rest))] = entry
    elif kind == "nodes":
        node, _, what = rest.partition("/")
        (found.registrations if what == "registration" else found.states)[int(node)] = entry
    elif entry.key == keys.CLUSTER:
        fields = keys.decode(entry.key, entry.value)
        found.cluster_id = fields["cluster_id"]
        found.login_secret = keys.decode_login_secret(fields)
    elif entry.key == keys.PRODUCER_IDS:
        found.next_producer_id = keys.decode(entry.key, entry.value)["next"]
    elif entry.key == HEAD:
        found.head = head_of(entry)
    elif kind != "election":
        raise keys.UnknownFormatError(f"unknown key {entry.key} in the metadata store")


def _nodes(found: _Found) -> dict[NodeId, NodeState]:
    nodes: dict[NodeId, NodeState] = {}
    for number, entry in found.registrations.items():
        node = NodeId(number)
        fields = keys.decode(entry.key, entry.value)
        state = found.states[number]
        flags = keys.decode(state.key, state.value)
        nodes[node] = NodeState(
            node_id=node,
            node_epoch=entry.mod_revision,
            address=fields["address"],
            rack=fields["rack"],
            incarnation=fields["incarnation"],
            log_dirs=tuple(fields["log_dirs"]),
            fenced=flags["fenced"],
            draining=flags["draining"],
            # States of earlier versions lack this field.
            decommissioning=flags.get("decommissioning", False),
            # Registrations of earlier versions lack this field.
            static_configs=fields.get("static_configs", {}),
        )
    return nodes


def _topics(found: _Found) -> Iterator[tuple[TopicId, TopicState]]:
    for topic_id, entry in found.topics.items():
        fields = keys.decode(entry.key, entry.value)
        # Partitions above the count are left-overs of an interrupted CreatePartitions.
        states = found.partitions.get(topic_id, [])[: fields["partitions"]]
        if [state.partition for state in states] != list(range(fields["partitions"])):
            raise keys.UnknownFormatError(f"partitions of {entry.key} are missing")
        yield topic_id, keys.decode_topic(topic_id, fields, states)


def _node_operations(before: NodeState | None, after: NodeState) -> list[Operation]:
    result: list[Operation] = []
    if before is None or before.incarnation != after.incarnation:
        value = keys.encode_registration(after)
        result.append(Put(key=keys.node_registration(after.node_id), value=value))
    value = keys.encode_node_state(after)
    if before is None or keys.encode_node_state(before) != value:
        result.append(Put(key=keys.node_state(after.node_id), value=value))
    return result


def _put_partition(topic_id: TopicId, state: PartitionState) -> Put:
    return Put(key=keys.partition(topic_id, state.partition), value=keys.encode_partition(state))


def _topic_operations(
    result: list[Operation], before: TopicState | None, after: TopicState
) -> Steps[None]:
    known = before.partitions if before is not None else ()
    for state in after.partitions:
        if state.partition >= len(known) or known[state.partition] != state:
            result.append(_put_partition(after.topic_id, state))
            yield
    value = keys.encode_topic(after)
    if before is None or keys.encode_topic(before) != value:
        # Last: new partitions only count with the topic's new value.
        result.append(Put(key=keys.topic(after.topic_id), value=value))


def _client_quota_operation(key: ClientQuotaKey, values: Mapping[str, float]) -> Operation:
    if not values:
        return Delete(key=keys.client_quota(key))
    return Put(key=keys.client_quota(key), value=keys.encode({"values": dict(values)}))


def _client_metrics_operation(key: ClientMetricsKey, configs: Mapping[str, str]) -> Operation:
    if not configs:
        return Delete(key=keys.client_metrics(key))
    return Put(key=keys.client_metrics(key), value=keys.encode({"values": dict(configs)}))


def _group_configs_operation(key: GroupConfigKey, configs: Mapping[str, str]) -> Operation:
    if not configs:
        return Delete(key=keys.group_configs(key))
    return Put(key=keys.group_configs(key), value=keys.encode({"values": dict(configs)}))


def _scram_operation(key: ScramKey, credential: ScramCredential | None) -> Operation:
    if credential is None:
        return Delete(key=keys.scram_credential(key))
    value = keys.encode_scram_credential(credential)
    return Put(key=keys.scram_credential(key), value=value)


def _node_config_operations(
    before: Mapping[NodeId, Mapping[str, str]], after: Mapping[NodeId, Mapping[str, str]]
) -> list[Operation]:
    result: list[Operation] = []
    for node in sorted(before.keys() | after.keys()):
        if before.get(node) == after.get(node):
            continue
        if node in after:
            value = keys.encode({"values": dict(after[node])})
            result.append(Put(key=keys.node_configs(node), value=value))
        else:
            result.append(Delete(key=keys.node_configs(node)))
    return result
