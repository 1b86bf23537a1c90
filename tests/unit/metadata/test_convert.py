"""Images and deltas through protobuf and back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.metadata.convert import (
    delta_from_pb,
    delta_to_pb,
    snapshot_from_pb,
    snapshot_to_pb,
)
from highwater.model.acls import Acl
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.client_quotas import ClientQuotaKey
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
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.scram import ScramCredential, ScramKey, ScramMechanism

REMOVED = ScramKey(DEFAULT_INSTANCE, "removed", ScramMechanism.SCRAM_SHA_512)

node_ids = st.integers(1, 2**31 - 1)
some_nodes = st.lists(node_ids, max_size=3).map(tuple)
names = st.text("abcxyz-._09", min_size=1, max_size=8)
configs = st.dictionaries(names, names, max_size=2)
limits = st.none() | st.integers(0, 2**62)
counts = st.none() | st.integers(0, 2**31 - 1)

partitions = st.builds(
    PartitionState,
    partition=st.just(0),
    leader=st.just(-1) | node_ids,
    leader_epoch=st.integers(0, 2**31 - 1),
    partition_epoch=st.integers(0, 2**31 - 1),
    replicas=some_nodes,
    isr=some_nodes,
    eligible_leaders=some_nodes,
    last_known_leader=st.just(-1) | node_ids,
    adding_replicas=some_nodes,
    removing_replicas=some_nodes,
)
topics = st.builds(
    TopicState,
    topic_id=st.binary(min_size=16, max_size=16),
    instance=names,
    name=names,
    partitions=st.lists(partitions, max_size=2).map(tuple),
    configs=configs,
    internal=st.booleans(),
)
nodes = st.builds(
    NodeState,
    node_id=node_ids,
    node_epoch=st.integers(0, 2**62),
    address=names,
    rack=names,
    incarnation=names,
    log_dirs=st.lists(names, max_size=2).map(tuple),
    fenced=st.booleans(),
    draining=st.booleans(),
    decommissioning=st.booleans(),
    static_configs=configs,
)
gateways = st.builds(
    GatewayState,
    gateway_id=names,
    host=names,
    port=st.integers(1, 65_535),
    single_port=st.booleans(),
    rack=names,
    node_id=st.integers(-1, 1000),
    listeners=st.builds(
        lambda name, host, port: (GatewayListener(name=name, host=host, port=port),),
        names,
        names,
        st.integers(1, 65_535),
    )
    | st.just(()),
    instance_port_shift=st.integers(0, 1000),
)
instances = st.builds(
    InstanceState,
    instance=names,
    produce_bytes_per_second=limits,
    consume_bytes_per_second=limits,
    storage_bytes=limits,
    listeners=st.lists(
        st.builds(
            InstanceListener,
            listener=names,
            port=st.integers(1, 65_535),
            advertised_host=st.just("") | names,
            advertised_port=st.integers(0, 65_535),
        ),
        max_size=2,
    ).map(tuple),
    allowed_networks=st.none() | st.lists(names, max_size=2).map(tuple),
    connections_max=counts,
    partitions_max=counts,
    groups_max=counts,
    message_bytes_max=counts,
    delete_protection=st.booleans(),
    purge_at_ms=limits,
)
node_gateways = st.dictionaries(node_ids, names, max_size=2)
node_configs = st.dictionaries(node_ids, configs, max_size=2)
entities = st.lists(st.tuples(names, st.none() | names), min_size=1, max_size=2).map(tuple)
client_quotas = st.dictionaries(
    st.builds(ClientQuotaKey, names, entities),
    st.dictionaries(names, st.floats(allow_nan=False), max_size=2),
    max_size=2,
)
client_metrics = st.dictionaries(st.builds(ClientMetricsKey, names, names), configs, max_size=2)
group_configs = st.dictionaries(st.builds(GroupConfigKey, names, names), configs, max_size=2)

scram_credentials = st.dictionaries(
    st.builds(ScramKey, names, names, st.sampled_from(ScramMechanism)),
    st.builds(
        ScramCredential,
        iterations=st.integers(1, 2**31 - 1),
        salt=st.binary(max_size=4),
        stored_key=st.binary(max_size=4),
        server_key=st.binary(max_size=4),
    ),
    max_size=2,
)

acls = st.builds(
    Acl, names, node_ids, node_ids, names, names, names, st.integers(-1, 127), st.integers(0, 3)
)


def few(items: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(items, max_size=2).map(tuple)


def over_the_wire(message: pb.ClusterChange) -> pb.ClusterChange:
    return pb.ClusterChange.FromString(message.SerializeToString())


@given(
    *(few(topics), few(nodes), few(gateways), few(instances)),
    *(node_gateways, configs, node_configs, client_quotas, client_metrics, group_configs),
    *(scram_credentials, st.frozensets(acls, max_size=2)),
)
@settings(max_examples=60, deadline=None)
def test_snapshots(  # type: ignore[no-untyped-def]
    ts, ns, gs, xs, mapping, cluster_configs, per_node, quotas, metrics, groups, scram, entries
):
    by_id = {topic.topic_id: topic for topic in ts}
    image = ClusterImage(
        revision=2**40,
        cluster_id="c",
        controller_epoch=7,
        nodes={node.node_id: node for node in ns},
        gateways={gateway.gateway_id: gateway for gateway in gs},
        node_gateways=mapping,
        topics=by_id,
        topic_ids={(t.instance, t.name): t.topic_id for t in by_id.values()},
        instances={instance.instance: instance for instance in xs},
        cluster_configs=cluster_configs,
        node_configs=per_node,
        client_quotas=quotas,
        client_metrics=metrics,
        group_configs=groups,
        scram_credentials=scram,
        acls=entries,
    )
    assert snapshot_from_pb(over_the_wire(snapshot_to_pb(image))) == image


@given(
    st.builds(
        ClusterDelta,
        revision=st.integers(1, 2**62),
        controller_epoch=st.integers(0, 2**62),
        topics=few(topics),
        partitions=st.dictionaries(
            st.binary(min_size=16, max_size=16),
            st.lists(partitions, min_size=1, max_size=2).map(tuple),
            max_size=2,
        ),
        removed_topics=st.frozensets(st.binary(min_size=16, max_size=16), max_size=2),
        nodes=few(nodes),
        removed_nodes=st.frozensets(node_ids, max_size=2),
        gateways=few(gateways),
        removed_gateways=st.frozensets(names, max_size=2),
        instances=few(instances),
        removed_instances=st.frozensets(names, max_size=2),
        node_gateways=st.none() | node_gateways,
        client_quotas=client_quotas,
        client_metrics=client_metrics,
        group_configs=group_configs,
        scram_credentials=scram_credentials.map(lambda some: some | {REMOVED: None}),
        acls=st.dictionaries(acls, st.booleans(), max_size=2),
    )
)
@settings(max_examples=60, deadline=None)
def test_deltas(delta: ClusterDelta) -> None:
    assert delta_from_pb(over_the_wire(delta_to_pb(delta, {"x": "1"}, {}))) == delta


def test_all_configs_are_sent_together() -> None:
    delta = ClusterDelta(revision=1, cluster_configs={"a": "1"})
    read = delta_from_pb(over_the_wire(delta_to_pb(delta, {"a": "1"}, {3: {"b": "2"}})))  # type: ignore[dict-item]
    assert read.cluster_configs == {"a": "1"}
    assert read.node_configs == {3: {"b": "2"}}
    emptied = ClusterDelta(revision=1, cluster_configs={})
    assert delta_from_pb(over_the_wire(delta_to_pb(emptied, {}, {}))).cluster_configs == {}


def test_a_limit_of_zero_is_not_unlimited() -> None:
    state = InstanceState(instance="i", produce_bytes_per_second=0)  # type: ignore[arg-type]
    delta = ClusterDelta(revision=1, instances=(state,))
    assert delta_from_pb(over_the_wire(delta_to_pb(delta, {}, {}))).instances == (state,)


def test_a_closed_instance_is_another_than_one_that_goes_by_the_gateways() -> None:
    for is_open in (True, False, None):
        state = InstanceState(
            instance=InstanceId("i"),
            token_audience="shop",
            certificates=True,
            open_if_no_acl=is_open,
        )
        delta = ClusterDelta(revision=1, instances=(state,))
        assert delta_from_pb(over_the_wire(delta_to_pb(delta, {}, {}))).instances == (state,)
