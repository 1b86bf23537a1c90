"""The cluster image: one immutable snapshot of the metadata at a revision of the store.

The controller owns it; every other service has a copy, which follows the controller's watch
(`highwater.metadata`). Values are replaced, never changed, so a reader may keep an image for any
time and compare revisions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from highwater.model.acls import Acl
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.coordinator_topics import coordinator_home, coordinator_topic_name
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    NO_NODE,
    GatewayId,
    InstanceId,
    LeaderEpoch,
    NodeId,
    TopicId,
)
from highwater.model.instances import InstanceListener, InstanceState, node_port
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.model.scram import ScramCredential, ScramKey
from highwater.model.steps import Steps, finish

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One partition as the controller last committed it (KIP-497, KIP-966)."""

    partition: int
    leader: NodeId
    """-1 while no replica may lead."""
    leader_epoch: LeaderEpoch
    """Grows by one on every change of leader and is never reused."""
    partition_epoch: int
    """Grows on every change of this record; AlterPartition compares it."""
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    eligible_leaders: tuple[NodeId, ...] = ()
    """KIP-966's ELR: not in the ISR, but known to have all committed records."""
    last_known_leader: NodeId = NO_NODE
    adding_replicas: tuple[NodeId, ...] = ()
    """Those of `replicas` that a reassignment adds (KIP-455)."""
    removing_replicas: tuple[NodeId, ...] = ()
    """Those of `replicas` that a reassignment removes when it is complete. If it adds them, too, it
    was called back while one of them led."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """One topic; `partitions[i].partition == i`."""

    topic_id: TopicId
    instance: InstanceId
    name: str
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = field(default_factory=dict)
    """Only what was set on the topic; defaults live in `highwater.model.topic_config`."""
    internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A partition node. A fenced one stays listed (clients may still know it)."""

    node_id: NodeId
    node_epoch: int
    """The broker epoch (KIP-631): the store's revision at registration."""
    address: str
    """host:port of its gRPC server."""
    rack: str
    incarnation: str
    """New at every start; also the token in its log directories (for reads by gateways)."""
    log_dirs: tuple[str, ...] = ()
    fenced: bool = True
    draining: bool = False
    decommissioning: bool = False
    """True while it is being decommissioned: no new replica is placed on it."""
    static_configs: Mapping[str, str] = field(default_factory=dict)
    """Its settings by the names of Kafka's broker configs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayListener:
    """A further block of ports of a gateway, with an address of its own (Kafka: listeners)."""

    name: str
    """Unique in the gateway; clients that came by it get addresses of the same name."""
    host: str
    port: int
    """Its bootstrap port; `port + n` is node n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayState:
    """A gateway and its block of ports: `port` is the bootstrap port, `port + n` is node n."""

    gateway_id: GatewayId
    host: str
    """The host name or address that clients connect to."""
    port: int
    single_port: bool
    """True on a one-node broker: `port` is both bootstrap and node."""
    rack: str = ""
    node_id: NodeId = NO_NODE
    """The partition node in the same process, -1 if there is none."""
    listeners: tuple[GatewayListener, ...] = ()
    """Listeners beside the one that `host` and `port` describe."""
    instance_port_shift: int = 0
    """Added to the ports of instances here, because other gateways have these on the same host."""

    def port_of(self, node: NodeId) -> int:
        """The gateway's port for broker `node`."""
        return node_port(self.port, node, single_port=self.single_port)

    def address_of(
        self, node: NodeId, listener: str, of_instance: InstanceListener | None = None
    ) -> tuple[str, int] | None:
        """Host and port of broker `node` for clients of a listener; None if it is not there.

        `of_instance`: what the client's instance has on that listener, unless it is the default one.
        """
        found = self._bootstrap_of(listener)
        if found is None:
            return None
        host, bootstrap = found
        if of_instance is not None:
            host = of_instance.advertised_host or host
            bootstrap = of_instance.advertised_port or of_instance.port
            bootstrap += self.instance_port_shift
        return host, node_port(bootstrap, node, single_port=self.single_port)

    def _bootstrap_of(self, listener: str) -> tuple[str, int] | None:
        if listener == DEFAULT_LISTENER:
            return self.host, self.port
        for each in self.listeners:
            if each.name == listener:
                return each.host, each.port
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """The cluster's metadata at one revision."""

    revision: int
    cluster_id: str
    controller_epoch: int = 0
    nodes: Mapping[NodeId, NodeState] = field(default_factory=dict)
    gateways: Mapping[GatewayId, GatewayState] = field(default_factory=dict)
    node_gateways: Mapping[NodeId, GatewayId] = field(default_factory=dict)
    """The gateway whose address clients get for a node; the controller assigns it."""
    topics: Mapping[TopicId, TopicState] = field(default_factory=dict)
    topic_ids: Mapping[tuple[InstanceId, str], TopicId] = field(default_factory=dict)
    instances: Mapping[InstanceId, InstanceState] = field(default_factory=dict)
    cluster_configs: Mapping[str, str] = field(default_factory=dict)
    """Dynamic broker configs for all nodes (IncrementalAlterConfigs on broker "")."""
    node_configs: Mapping[NodeId, Mapping[str, str]] = field(default_factory=dict)
    client_quotas: Mapping[ClientQuotaKey, Mapping[str, float]] = field(default_factory=dict)
    """The values that were set, by Kafka's names; entities without any are not in it."""
    client_metrics: Mapping[ClientMetricsKey, Mapping[str, str]] = field(default_factory=dict)
    """The configs that were set (KIP-714); subscriptions without any are not in it."""
    group_configs: Mapping[GroupConfigKey, Mapping[str, str]] = field(default_factory=dict)
    """The configs that were set; groups without any are not in it. See `group_config`."""
    scram_credentials: Mapping[ScramKey, ScramCredential] = field(default_factory=dict)
    acls: frozenset[Acl] = frozenset()
    """The same object as long as none changes."""

    def topic(self, name: str, instance: InstanceId = DEFAULT_INSTANCE) -> TopicState | None:
        """The topic of that name in that instance, or None."""
        topic_id = self.topic_ids.get((instance, name))
        return None if topic_id is None else self.topics[topic_id]

    def coordinator_topic(self, name: str, instance: InstanceId) -> TopicState | None:
        """The internal topic of an instance's groups (`__consumer_offsets`) or transactions, or None."""
        return self.topic(coordinator_topic_name(name, instance), coordinator_home(instance))

    def apply(self, delta: "ClusterDelta") -> "ClusterImage":
        """Returns the image at `delta.revision`; this one does not change."""
        return finish(self.applying(delta))

    def applying(self, delta: "ClusterDelta") -> Steps["ClusterImage"]:
        """`apply` in steps. What did not change is the same object in both images."""
        assert delta.revision >= self.revision
        topics, topic_ids = self.topics, self.topic_ids
        if delta.topics or delta.removed_topics or delta.partitions:
            topics = {t: s for t, s in topics.items() if t not in delta.removed_topics}
            topics.update((t.topic_id, t) for t in delta.topics)
            for topic_id, changed in delta.partitions.items():
                topics[topic_id] = with_partitions(topics[topic_id], changed)
                yield
        if delta.topics or delta.removed_topics:
            topic_ids = {(t.instance, t.name): t.topic_id for t in topics.values()}
        nodes = {n: s for n, s in self.nodes.items() if n not in delta.removed_nodes}
        nodes.update((n.node_id, n) for n in delta.nodes)
        gateways = {g: s for g, s in self.gateways.items() if g not in delta.removed_gateways}
        gateways.update((g.gateway_id, g) for g in delta.gateways)
        instances = {i: s for i, s in self.instances.items() if i not in delta.removed_instances}
        instances.update((i.instance, i) for i in delta.instances)
        client_quotas = self.client_quotas
        if delta.client_quotas:
            merged = {**client_quotas, **delta.client_quotas}
            client_quotas = {key: values for key, values in merged.items() if values}
        client_metrics = self.client_metrics
        if delta.client_metrics:
            subscriptions = {**client_metrics, **delta.client_metrics}
            client_metrics = {key: configs for key, configs in subscriptions.items() if configs}
        group_configs = self.group_configs
        if delta.group_configs:
            groups = {**group_configs, **delta.group_configs}
            group_configs = {key: configs for key, configs in groups.items() if configs}
        scram_credentials = self.scram_credentials
        if delta.scram_credentials:
            scram_credentials = {
                key: credential
                for key, credential in {**scram_credentials, **delta.scram_credentials}.items()
                if credential is not None
            }
        acls = self.acls
        if delta.acls:
            removed = {acl for acl, stays in delta.acls.items() if not stays}
            acls = frozenset((acls - removed).union(delta.acls.keys() - removed))
        return replace(
            self,
            revision=delta.revision,
            controller_epoch=max(self.controller_epoch, delta.controller_epoch),
            nodes=nodes,
            gateways=gateways,
            instances=instances,
            topics=topics,
            topic_ids=topic_ids,
            node_gateways=_or(delta.node_gateways, self.node_gateways),
            cluster_configs=_or(delta.cluster_configs, self.cluster_configs),
            node_configs=_or(delta.node_configs, self.node_configs),
            client_quotas=client_quotas,
            client_metrics=client_metrics,
            group_configs=group_configs,
            scram_credentials=scram_credentials,
            acls=acls,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDelta:
    """The changes up to `revision`. A mapping is None if it did not change, else complete."""

    revision: int
    controller_epoch: int = 0
    topics: tuple[TopicState, ...] = ()
    """New topics, and topics in which not only existing partitions changed; complete."""
    partitions: Mapping[TopicId, tuple[PartitionState, ...]] = field(default_factory=dict)
    """Changed partitions of topics that exist before and after and are not in `topics`."""
    removed_topics: frozenset[TopicId] = frozenset()
    nodes: tuple[NodeState, ...] = ()
    removed_nodes: frozenset[NodeId] = frozenset()
    gateways: tuple[GatewayState, ...] = ()
    removed_gateways: frozenset[GatewayId] = frozenset()
    instances: tuple[InstanceState, ...] = ()
    removed_instances: frozenset[InstanceId] = frozenset()
    node_gateways: Mapping[NodeId, GatewayId] | None = None
    cluster_configs: Mapping[str, str] | None = None
    node_configs: Mapping[NodeId, Mapping[str, str]] | None = None
    client_quotas: Mapping[ClientQuotaKey, Mapping[str, float]] = field(default_factory=dict)
    """All values of each entity that changed; none if it has no quotas any more."""
    client_metrics: Mapping[ClientMetricsKey, Mapping[str, str]] = field(default_factory=dict)
    """All configs of each subscription that changed; none if it is gone."""
    group_configs: Mapping[GroupConfigKey, Mapping[str, str]] = field(default_factory=dict)
    """All configs of each group of which some changed; none if it has no more."""
    scram_credentials: Mapping[ScramKey, ScramCredential | None] = field(default_factory=dict)
    """New and changed credentials, None for removed ones."""
    acls: Mapping[Acl, bool] = field(default_factory=dict)
    """True for new ACLs, False for removed ones."""

    @property
    def partition_count(self) -> int:
        """Partitions in it, those of whole topics included."""
        return partitions_of(self.topics) + sum(map(len, self.partitions.values()))


def with_partitions(topic: TopicState, changed: Iterable[PartitionState]) -> TopicState:
    """The topic with some of its partitions replaced."""
    partitions = list(topic.partitions)
    for state in changed:
        partitions[state.partition] = state
    # `dataclasses.replace` takes twice as long, and a dead node changes all topics.
    return TopicState(
        topic_id=topic.topic_id,
        instance=topic.instance,
        name=topic.name,
        partitions=tuple(partitions),
        configs=topic.configs,
        internal=topic.internal,
    )


def replaced_topics(before: ClusterImage, delta: ClusterDelta) -> list[TopicState]:
    """The topics of `before` that the delta changes or removes; see `freeing_topics`."""
    ids = (*(t.topic_id for t in delta.topics), *delta.partitions, *delta.removed_topics)
    return [before.topics[topic_id] for topic_id in ids if topic_id in before.topics]


def freeing_topics(topics: list[TopicState]) -> Steps[None]:
    """Empties the list, a topic in each step.

    Dropping the last reference to an image frees all its partitions at once, which stops the loop.
    A list that still has the topics which only that image has spreads this over the steps.
    """
    while topics:
        topics.pop()
        yield


def partitions_of(topics: Iterable[TopicState]) -> int:
    """How many partitions they have together."""
    return sum(len(topic.partitions) for topic in topics)


def _or(changed: _V | None, present: _V) -> _V:
    return present if changed is None else changed
