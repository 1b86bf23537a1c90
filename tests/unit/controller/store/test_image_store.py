"""The image survives the store; what an interrupted change leaves."""

from dataclasses import replace
from typing import Any

import pytest

from highwater.controller.store import keys
from highwater.controller.store.engine import Engine
from highwater.controller.store.image_store import StoredState, load, loading, operations
from highwater.controller.store.port import Operation, Put
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    GatewayState,
    TopicState,
)
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import GatewayId, InstanceId, NodeId
from highwater.model.instances import InstanceState
from highwater.model.scram import ScramCredential, ScramKey, ScramMechanism
from highwater.model.steps import finish
from tests.support.acls import acl
from tests.support.controller_images import image_of, node_state, topic_state
from tests.support.looked_at import longest_step

EMPTY = image_of()
GATEWAY = GatewayState(gateway_id=GatewayId("g"), host="h", port=1, single_port=False)
BIG = ClusterDelta(
    revision=1,
    topics=(topic_state("a", [(1, 2)] * 3), topic_state("b", [(2,)])),
    nodes=(node_state(1), node_state(2, fenced=True), replace(node_state(3), decommissioning=True)),
    gateways=(GATEWAY,),
    instances=(InstanceState(instance=InstanceId("i"), storage_bytes=1),),
    cluster_configs={"x": "1"},
    node_configs={NodeId(1): {"y": "2"}},
    client_quotas={
        ClientQuotaKey(InstanceId("i"), (("user", "a"),)): {"producer_byte_rate": 0.1},
        ClientQuotaKey(InstanceId("i"), (("client-id", None), ("user", "b/c"))): {"x": 1e300},
    },
    client_metrics={
        ClientMetricsKey(InstanceId("i"), "a"): {"interval.ms": "100"},
        ClientMetricsKey(InstanceId("i"), "b/c"): {"metrics": "*"},
    },
    group_configs={
        GroupConfigKey(InstanceId("i"), "a"): {"consumer.session.timeout.ms": "1"},
        GroupConfigKey(InstanceId("i"), "b/c"): {"consumer.heartbeat.interval.ms": "1"},
    },
    scram_credentials={
        ScramKey(InstanceId("i"), "a", mechanism): ScramCredential(
            iterations=4_096, salt=b"s", stored_key=b"k", server_key=b"v"
        )
        for mechanism in ScramMechanism
    },
    acls={acl("a"): True, acl("b/c", principal="User:*", host="h"): True},
)


class Store:
    """An engine to which the test writes operations."""

    def __init__(self) -> None:
        self.engine = Engine()

    def write(self, changes: list[Operation]) -> None:
        for change in changes:
            self.engine.apply(self.engine.plan((), [change]))

    def state(self) -> StoredState:
        return load(self.engine.range(""))


def content(image: ClusterImage) -> ClusterImage:
    """The image without the store's own numbers."""
    nodes = {number: replace(node, node_epoch=0) for number, node in image.nodes.items()}
    return replace(image, revision=0, cluster_id="", nodes=nodes)


def applied(image: ClusterImage, delta: ClusterDelta) -> ClusterImage:
    return image.apply(replace(delta, revision=image.revision + 1))


def test_an_image_is_read_back() -> None:
    store = Store()
    store.write(operations(EMPTY, BIG))
    state = store.state()
    assert content(state.image) == content(applied(EMPTY, BIG))
    assert state.orphans == ()


def test_node_epochs_are_registrations_revisions() -> None:
    store = Store()
    store.write(operations(EMPTY, BIG))
    image = store.state().image
    epoch = image.nodes[NodeId(1)].node_epoch
    fenced = replace(image.nodes[NodeId(1)], fenced=True)
    store.write(operations(image, ClusterDelta(revision=1, nodes=(fenced,))))
    after = store.state().image
    assert after.nodes[NodeId(1)].fenced
    assert after.nodes[NodeId(1)].node_epoch == epoch, "a change of state is no registration"
    again = replace(after.nodes[NodeId(1)], incarnation="new")
    store.write(operations(after, ClusterDelta(revision=1, nodes=(again,))))
    assert store.state().image.nodes[NodeId(1)].node_epoch > epoch


def test_only_what_changed_is_written() -> None:
    image = applied(EMPTY, BIG)
    topic = image.topic("a")
    assert topic is not None
    partitions = list(topic.partitions)
    partitions[1] = replace(partitions[1], partition_epoch=8)
    changed = replace(topic, partitions=tuple(partitions))
    (only,) = operations(image, ClusterDelta(revision=1, topics=(changed,)))
    assert isinstance(only, Put)
    assert only.key == keys.partition(topic.topic_id, 1)
    with_config = replace(topic, configs={"c": "1"})
    (only,) = operations(image, ClusterDelta(revision=1, topics=(with_config,)))
    assert isinstance(only, Put)
    assert only.key == keys.topic(topic.topic_id)


def test_everything_can_be_removed() -> None:
    store = Store()
    store.write(operations(EMPTY, BIG))
    image = store.state().image
    nothing = ClusterDelta(
        revision=1,
        removed_topics=frozenset(image.topics),
        removed_nodes=frozenset(image.nodes),
        removed_gateways=frozenset(image.gateways),
        removed_instances=frozenset(image.instances),
        cluster_configs={},
        node_configs={},
        client_quotas={key: {} for key in image.client_quotas},
        client_metrics={key: {} for key in image.client_metrics},
        group_configs={key: {} for key in image.group_configs},
        scram_credentials=dict.fromkeys(image.scram_credentials),
        acls=dict.fromkeys(image.acls, False),
    )
    store.write(operations(image, nothing))
    left = [entry.key for entry in store.engine.range("").entries]
    assert left == [keys.CLUSTER_CONFIGS]


def test_every_prefix_of_a_creation_loads() -> None:
    """An interrupted creation leaves the whole topic or only leftovers."""
    topic = topic_state("a", [(1,)] * 4)
    changes = operations(EMPTY, ClusterDelta(revision=1, topics=(topic,)))
    for length in range(len(changes) + 1):
        store = Store()
        store.write(changes[:length])
        state = store.state()
        whole = length == len(changes)
        assert bool(state.image.topics) == whole
        assert state.orphans == ((topic.topic_id,) if 0 < length < len(changes) else ())


def test_every_prefix_of_a_growth_loads() -> None:
    small = topic_state("a", [(1,)] * 2)
    large: TopicState = topic_state("a", [(1,)] * 5)
    image = image_of(topics=[small])
    first = operations(EMPTY, ClusterDelta(revision=1, topics=(small,)))
    changes = operations(image, ClusterDelta(revision=1, topics=(large,)))
    assert len(changes) == 4
    for length in range(len(changes) + 1):
        store = Store()
        store.write(first + changes[:length])
        state = store.state()
        sizes = [len(topic.partitions) for topic in state.image.topics.values()]
        assert sizes == [5 if length == len(changes) else 2]
        assert state.orphans == ()


def test_an_interrupted_deletion_leaves_only_leftovers() -> None:
    topic = topic_state("a", [(1,)] * 2)
    store = Store()
    store.write(operations(EMPTY, ClusterDelta(revision=1, topics=(topic,))))
    removal = ClusterDelta(revision=1, removed_topics=frozenset({topic.topic_id}))
    store.write(operations(image_of(topics=[topic]), removal)[:1])
    assert store.state().orphans == (topic.topic_id,)


def test_every_prefix_of_a_lower_minimum_is_safe() -> None:
    """Eligible leaders are removed before the minimum changes: the old one is only stricter."""
    (alone,) = topic_state("a", [(1, 2)]).partitions
    waiting = replace(alone, isr=(NodeId(1),), eligible_leaders=(NodeId(2),))
    before = replace(topic_state("a", []), partitions=(waiting,), configs={"min": "2"})
    settled = replace(waiting, eligible_leaders=(), partition_epoch=8)
    after = replace(before, partitions=(settled,), configs={"min": "1"})
    image = replace(image_of(topics=[before]), cluster_configs={"min": "2"})
    delta = ClusterDelta(revision=1, topics=(after,), cluster_configs={"min": "1"})
    changes = operations(image, delta)
    keys_in_order = [change.key for change in changes if isinstance(change, Put)]
    assert keys_in_order == [
        keys.partition(before.topic_id, 0), keys.topic(before.topic_id), keys.CLUSTER_CONFIGS,
    ]  # fmt: skip


def test_registrations_of_earlier_versions_are_read() -> None:
    store = Store()
    store.write(operations(EMPTY, BIG))
    key = keys.node_registration(NodeId(1))
    entry = next(e for e in store.engine.range(key).entries if e.key == key)
    fields = {**keys.decode(entry.key, entry.value), "boot_id": "91b0"}
    store.write([Put(key=key, value=keys.encode(fields))])
    assert store.state().image.nodes[NodeId(1)].incarnation == node_state(1).incarnation


def test_foreign_and_damaged_content() -> None:
    store = Store()
    store.write([Put(key="stranger", value=keys.encode({}))])
    with pytest.raises(keys.UnknownFormatError, match="stranger"):
        store.state()
    store = Store()
    topic = topic_state("a", [(1,)] * 3)
    changes = operations(EMPTY, ClusterDelta(revision=1, topics=(topic,)))
    store.write(changes[1:])
    with pytest.raises(keys.UnknownFormatError, match="missing"):
        store.state()


def test_a_step_of_a_load_decodes_a_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    image = image_of([node_state(1)], [topic_state(name, [(1,)] * 100) for name in "ab"])
    engine = Engine()
    nothing = ClusterImage(revision=0, cluster_id="")
    delta = ClusterDelta(
        revision=1, topics=tuple(image.topics.values()), nodes=tuple(image.nodes.values())
    )
    engine.apply(finish(engine.planning((), operations(nothing, delta))))
    decoded = 0
    decode = keys.decode

    def counted(key: str, value: bytes) -> dict[str, Any]:
        nonlocal decoded
        decoded += 1
        return decode(key, value)

    monkeypatch.setattr(keys, "decode", counted)
    state, longest = longest_step(loading(engine.range("")), lambda: decoded)
    assert state.image.topics == image.topics
    assert decoded >= 200
    assert longest <= 20


def test_quotas_of_an_entity_are_replaced_and_removed() -> None:
    store = Store()
    store.write(operations(EMPTY, BIG))
    image = store.state().image
    first, second = BIG.client_quotas
    delta = ClusterDelta(revision=1, client_quotas={first: {}, second: {"y": 2.0}})
    changes = operations(image, delta)
    assert len(changes) == 2
    store.write(changes)
    assert store.state().image.client_quotas == {second: {"y": 2.0}}
    assert content(store.state().image) == content(applied(image, delta))


def test_configs_of_a_subscription_are_replaced_and_removed() -> None:
    store = Store()
    store.write(operations(EMPTY, BIG))
    image = store.state().image
    first, second = BIG.client_metrics
    delta = ClusterDelta(revision=1, client_metrics={first: {}, second: {"match": ""}})
    store.write(operations(image, delta))
    assert store.state().image.client_metrics == {second: {"match": ""}}
    assert content(store.state().image) == content(applied(image, delta))


def test_configs_of_a_group_are_replaced_and_removed() -> None:
    store = Store()
    store.write(operations(EMPTY, BIG))
    image = store.state().image
    first, second = BIG.group_configs
    delta = ClusterDelta(revision=1, group_configs={first: {}, second: {"x": "2"}})
    store.write(operations(image, delta))
    assert store.state().image.group_configs == {second: {"x": "2"}}
    assert content(store.state().image) == content(applied(image, delta))


def test_a_store_of_an_earlier_version_has_neither_client_quotas_nor_scram_users() -> None:
    store = Store()
    store.write(operations(EMPTY, replace(BIG, client_quotas={}, scram_credentials={}, acls={})))
    assert store.state().image.client_quotas == {}
    assert store.state().image.scram_credentials == {}
