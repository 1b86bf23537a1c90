"""Keys and values survive encoding; foreign ones are refused."""

import json
from dataclasses import replace

import pytest

from highwater.controller.store import keys
from highwater.model.acls import Acl
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.cluster import (
    GatewayListener,
    GatewayState,
    PartitionState,
)
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import GatewayId, InstanceId, LeaderEpoch, NodeId, TopicId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.scram import ScramCredential, ScramKey, ScramMechanism
from tests.support.acls import acl
from tests.support.controller_images import topic_state

TOPIC_ID = TopicId(bytes(range(16)))


def test_keys() -> None:
    assert keys.topic(TOPIC_ID) == "topics/000102030405060708090a0b0c0d0e0f"
    assert keys.partition(TOPIC_ID, 7).startswith(keys.partitions(TOPIC_ID))
    numbers = [9_999, 10, 9, 0, 10_000]
    by_key = sorted(numbers, key=lambda n: keys.partition(TOPIC_ID, n))
    assert by_key == sorted(numbers), "keys sort as numbers do"
    assert keys.node_registration(NodeId(3)) == "nodes/3/registration"


def test_partitions_are_read_back() -> None:
    state = PartitionState(
        partition=4,
        leader=NodeId(-1),
        leader_epoch=LeaderEpoch(9),
        partition_epoch=12,
        replicas=(NodeId(3), NodeId(1)),
        isr=(NodeId(1),),
        eligible_leaders=(NodeId(3),),
        last_known_leader=NodeId(3),
        adding_replicas=(NodeId(5),),
        removing_replicas=(NodeId(1),),
    )
    fields = keys.decode("k", keys.encode_partition(state))
    assert keys.decode_partition(4, fields) == state


def test_others_are_read_back() -> None:
    topic = topic_state("a", [(1,), (2,)])
    fields = keys.decode("k", keys.encode_topic(topic))
    assert fields["partitions"] == 2
    assert keys.decode_topic(topic.topic_id, fields, topic.partitions) == topic
    gateway = GatewayState(
        gateway_id=GatewayId("g"), host="h", port=9092, single_port=True, rack="r"
    )
    fields = keys.decode("k", keys.encode_gateway(gateway))
    assert keys.decode_gateway("g", fields) == gateway
    # Values that were written before gateways had nodes and listeners.
    assert keys.decode_gateway("g", {**fields, "node": -1, "listeners": []}) == gateway
    del fields["node"], fields["listeners"], fields["instance_port_shift"]
    assert keys.decode_gateway("g", fields) == gateway
    combined = replace(
        gateway,
        node_id=NodeId(3),
        listeners=(GatewayListener(name="internal", host="h2", port=19092),),
        instance_port_shift=100,
    )
    fields = keys.decode("k", keys.encode_gateway(combined))
    assert keys.decode_gateway("g", fields) == combined
    instance = InstanceState(instance=InstanceId("i"), produce_bytes_per_second=0, storage_bytes=5)
    fields = keys.decode("k", keys.encode_instance(instance))
    assert keys.decode_instance("i", fields) == instance
    # One that was written before instances had more than these.
    old = {name: fields[name] for name in ("produce", "consume", "storage")}
    assert keys.decode_instance("i", old) == instance
    shop = InstanceState(
        instance=InstanceId("shop"),
        listeners=(
            InstanceListener(port=19000, advertised_host="shop.example", advertised_port=1),
        ),
        allowed_networks=("10.0.0.0/8", "::1/128"),
        connections_max=1,
        partitions_max=2,
        groups_max=3,
        message_bytes_max=4,
        delete_protection=True,
        purge_at_ms=5,
        token_audience="shop",
        certificates=True,
        open_if_no_acl=False,
    )
    fields = keys.decode("k", keys.encode_instance(shop))
    assert keys.decode_instance("shop", fields) == shop
    closed = replace(shop, allowed_networks=())
    fields = keys.decode("k", keys.encode_instance(closed))
    assert keys.decode_instance("shop", fields) == closed


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        (
            ClientQuotaKey(InstanceId("default"), (("client-id", "app 1"), ("user", None))),
            "client_quotas/default/client-id=app%201,user=",
        ),
        (
            ClientQuotaKey(InstanceId("a/b"), (("user", "CN=ä,O=x/y%=&"),)),
            "client_quotas/a%2Fb/user=CN%3D%C3%A4%2CO%3Dx%2Fy%25%3D%26",
        ),
        (
            ClientQuotaKey(InstanceId("i"), (("ip", "2001:db8::1"),)),
            "client_quotas/i/ip=2001%3Adb8%3A%3A1",
        ),
    ],
)
def test_client_quotas(key: ClientQuotaKey, stored: str) -> None:
    assert keys.client_quota(key) == stored
    assert keys.decode_client_quota(stored.removeprefix(keys.CLIENT_QUOTAS)) == key


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        (ClientMetricsKey(InstanceId("default"), "sub 1"), "client_metrics/default/sub%201"),
        (ClientMetricsKey(InstanceId("a/b"), "ä/%"), "client_metrics/a%2Fb/%C3%A4%2F%25"),
    ],
)
def test_client_metrics(key: ClientMetricsKey, stored: str) -> None:
    assert keys.client_metrics(key) == stored
    assert keys.decode_client_metrics(stored.removeprefix(keys.CLIENT_METRICS)) == key


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        (GroupConfigKey(InstanceId("default"), "a group"), "group_configs/default/a%20group"),
        (GroupConfigKey(InstanceId("a/b"), "ä/%"), "group_configs/a%2Fb/%C3%A4%2F%25"),
    ],
)
def test_group_configs(key: GroupConfigKey, stored: str) -> None:
    assert keys.group_configs(key) == stored
    assert keys.decode_group_configs(stored.removeprefix(keys.GROUP_CONFIGS)) == key


@pytest.mark.parametrize(
    ("entry", "stored"),
    [
        (acl("logs"), "default/2/3/logs/User%3Aalice/%2A/3/3"),
        (
            acl("ä/%", principal="User:CN=a,O=b/c", host="::1", instance=InstanceId("a/b")),
            "a%2Fb/2/3/%C3%A4%2F%25/User%3ACN%3Da%2CO%3Db%2Fc/%3A%3A1/3/3",
        ),
    ],
)
def test_acls(entry: Acl, stored: str) -> None:
    assert keys.acl(entry) == keys.ACLS + stored
    assert keys.decode_acl(stored) == entry


def test_scram_credentials() -> None:
    sha_256, sha_512 = ScramMechanism
    for key, stored in (
        (ScramKey(InstanceId("default"), "alice", sha_256), "default/SCRAM-SHA-256/alice"),
        (
            ScramKey(InstanceId("a/b"), "x/y,ä %", sha_512),
            "a%2Fb/SCRAM-SHA-512/x%2Fy%2C%C3%A4%20%25",
        ),
    ):
        assert keys.scram_credential(key) == keys.SCRAM_CREDENTIALS + stored
        assert keys.decode_scram_key(stored) == key
    credential = ScramCredential(
        iterations=4_096, salt=b"\0\xff", stored_key=bytes(range(32)), server_key=b""
    )
    fields = keys.decode("k", keys.encode_scram_credential(credential))
    assert keys.decode_scram_credential(fields) == credential


@pytest.mark.parametrize("value", [b"", b"x", b"[]", b"{}", b'{"v":2}', b'{"v":null}', b"\xff"])
def test_foreign_values_are_refused(value: bytes) -> None:
    with pytest.raises(keys.UnknownFormatError):
        keys.decode("k", value)


def test_values_are_versioned() -> None:
    assert json.loads(keys.encode({"a": 1})) == {"v": 1, "a": 1}
