"""Every key of the metadata store and the format of its value, version 1, shown by example.

    cluster                      {"v":1,"cluster_id":"4L6g3nShT-eMCtK--X86sw","login_secret":"5Yk="}
                                 the secret in base64; what users who are not there look like is made of it
    election/<candidate>         {"v":1,"address":"10.0.0.5:9300"}            ends with its lease
    nodes/3/registration         {"v":1,"address":"10.0.0.9:9301","rack":"10.0.0.9",
                                  "incarnation":"6f1c...","log_dirs":["/data/a"],
                                  "static_configs":{"group.max.size":"10000"}}
                                 its mod revision is the node epoch
    nodes/3/state                {"v":1,"fenced":false,"draining":false,"decommissioning":false}
    gateways/gw-a                {"v":1,"host":"10.0.0.7","port":9092,"single_port":false,"rack":"r1",
                                  "node":3,"listeners":[["internal","gw-a",19092]]}
    instances/shop               {"v":1,"produce":1048576,"consume":null,"storage":null,
                                  "listeners":[["default",19000,"",0]],"allowed":["10.0.0.0/8"],
                                  "connections":null,"partitions":100,"groups":null,
                                  "message_bytes":null,"protected":true,"purge_at_ms":null,
                                  "token_audience":"shop","certificates":false,"open":null}
    topics/<id, hex>             {"v":1,"instance":"default","name":"access_log","partitions":6,
                                  "internal":false,"configs":{"retention.ms":"1000"}}
    partitions/<id, hex>/00000   {"v":1,"leader":1,"leader_epoch":0,"epoch":0,"replicas":[1,2],
                                  "isr":[1,2],"elr":[],"last_leader":-1,"adding":[],"removing":[]}
    configs/cluster              {"v":1,"values":{"log.retention.ms":"1000"}}
    configs/nodes/3              {"v":1,"values":{"log.cleaner.backoff.ms":"1000"}}
    client_quotas/default/client-id=app%201,user=   {"v":1,"values":{"producer_byte_rate":1024.0}}
                                 instance, types and names are quoted as in URLs; the empty name
                                 is the default of its type
    client_metrics/default/sub%201   {"v":1,"values":{"interval.ms":"1000"}}
                                 instance and name quoted likewise
    group_configs/default/readers   {"v":1,"values":{"consumer.session.timeout.ms":"50000"}}
                                 instance and group id quoted likewise
    scram_credentials/default/SCRAM-SHA-256/alice   {"v":1,"iterations":4096,"salt":"cQ==",
                                  "stored_key":"5Yk=","server_key":"Vw8="}
                                 instance and user quoted likewise, bytes in base64
    acls/default/2/3/logs/User%3Aalice/%2A/3/3   {"v":1}
                                 instance, resource type, pattern type, name, principal, host, operation,
                                 permission; numbers as in Kafka's requests, the rest quoted likewise
    producer_ids                 {"v":1,"next":1000}
    head                         {"v":1,"controller_epoch":7}                 see `store.head`

A topic exists when its `topics/` key does: partitions are written before it and removed after it,
so partitions without a topic are left-overs of an interrupted change and are removed at takeover.
Rates are bytes per second, storage is bytes, null is unlimited. A store without keys of some kind has
nothing of that kind; a key of another kind is refused (UnknownFormatError).
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from highwater.model.acls import Acl
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.cluster import (
    GatewayListener,
    GatewayState,
    NodeState,
    PartitionState,
    TopicState,
)
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import NO_NODE, GatewayId, InstanceId, LeaderEpoch, NodeId, TopicId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.scram import ScramCredential, ScramKey, ScramMechanism

FORMAT_VERSION: Final = 1

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))

CLUSTER: Final = "cluster"
PRODUCER_IDS: Final = "producer_ids"
CLUSTER_CONFIGS: Final = "configs/cluster"
ELECTION: Final = "election/"
NODES: Final = "nodes/"
GATEWAYS: Final = "gateways/"
INSTANCES: Final = "instances/"
TOPICS: Final = "topics/"
PARTITIONS: Final = "partitions/"
NODE_CONFIGS: Final = "configs/nodes/"
CLIENT_QUOTAS: Final = "client_quotas/"
CLIENT_METRICS: Final = "client_metrics/"
GROUP_CONFIGS: Final = "group_configs/"
SCRAM_CREDENTIALS: Final = "scram_credentials/"
ACLS: Final = "acls/"


class UnknownFormatError(Exception):
    """A newer version of this program wrote the value, or another program did."""


def node_registration(node: NodeId) -> str:
    """The key that has the node epoch as its mod revision."""
    return f"{NODES}{node}/registration"


def node_state(node: NodeId) -> str:
    """The key of the state that the controller changes."""
    return f"{NODES}{node}/state"


def gateway(gateway_id: GatewayId) -> str:
    """A gateway's key."""
    return f"{GATEWAYS}{gateway_id}"


def instance(instance_id: InstanceId) -> str:
    """An instance's key."""
    return f"{INSTANCES}{instance_id}"


def topic(topic_id: TopicId) -> str:
    """A topic's key, without its partitions."""
    return f"{TOPICS}{topic_id.hex()}"


def partitions(topic_id: TopicId) -> str:
    """The prefix of a topic's partitions."""
    return f"{PARTITIONS}{topic_id.hex()}/"


def partition(topic_id: TopicId, number: int) -> str:
    """A partition's key; five digits, so that keys sort as numbers do."""
    return f"{PARTITIONS}{topic_id.hex()}/{number:05d}"


def node_configs(node: NodeId) -> str:
    """The key of a node's dynamic configs."""
    return f"{NODE_CONFIGS}{node}"


def client_quota(key: ClientQuotaKey) -> str:
    """The key of one entity's client quotas."""
    parts = ",".join(f"{kind}={quote(name or '', safe='')}" for kind, name in key.entity)
    return f"{CLIENT_QUOTAS}{quote(key.instance, safe='')}/{parts}"


def decode_client_quota(rest: str) -> ClientQuotaKey:
    """Whom the quotas are for, from what follows CLIENT_QUOTAS in the key."""
    instance, _, entity = rest.partition("/")
    parts = (part.partition("=") for part in entity.split(","))
    return ClientQuotaKey(
        InstanceId(unquote(instance)),
        tuple((kind, unquote(name) or None) for kind, _, name in parts),
    )


def client_metrics(key: ClientMetricsKey) -> str:
    """The key of one client metrics subscription."""
    return f"{CLIENT_METRICS}{quote(key.instance, safe='')}/{quote(key.name, safe='')}"


def decode_client_metrics(rest: str) -> ClientMetricsKey:
    """Which subscription it is, from what follows CLIENT_METRICS in the key."""
    instance, _, name = rest.partition("/")
    return ClientMetricsKey(InstanceId(unquote(instance)), unquote(name))


def group_configs(key: GroupConfigKey) -> str:
    """The key of one group's configs."""
    return f"{GROUP_CONFIGS}{quote(key.instance, safe='')}/{quote(key.group_id, safe='')}"


def decode_group_configs(rest: str) -> GroupConfigKey:
    """Which group it is, from what follows GROUP_CONFIGS in the key."""
    instance, _, group_id = rest.partition("/")
    return GroupConfigKey(InstanceId(unquote(instance)), unquote(group_id))


def scram_credential(key: ScramKey) -> str:
    """The key of one user's credential for one mechanism."""
    instance, user = quote(key.instance, safe=""), quote(key.user, safe="")
    return f"{SCRAM_CREDENTIALS}{instance}/{key.mechanism.mechanism_name}/{user}"


def decode_scram_key(rest: str) -> ScramKey:
    """Whose credential it is, from what follows SCRAM_CREDENTIALS in the key."""
    instance, mechanism, user = rest.split("/")
    return ScramKey(
        InstanceId(unquote(instance)),
        unquote(user),
        ScramMechanism[mechanism.replace("-", "_")],
    )


def acl(entry: Acl) -> str:
    """The key of one ACL, which is all of it."""
    return ACLS + "/".join(quote(str(value), safe="") for value in entry)


def decode_acl(rest: str) -> Acl:
    """The ACL, from what follows ACLS in the key."""
    instance, kind, pattern, name, principal, host, operation, permission = rest.split("/")
    return Acl(
        InstanceId(unquote(instance)),
        int(kind),
        int(pattern),
        unquote(name),
        unquote(principal),
        unquote(host),
        int(operation),
        int(permission),
    )


def encode(values: Mapping[str, Any]) -> bytes:
    """A value with its version, as compact JSON."""
    return _ENCODER.encode({"v": FORMAT_VERSION, **values}).encode()


def decode(key: str, value: bytes) -> dict[str, Any]:
    """The fields of a value. Raises UnknownFormatError."""
    try:
        fields = json.loads(value)
        version = fields["v"]
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownFormatError(f"{key} does not hold a value of this program") from error
    if version != FORMAT_VERSION:
        raise UnknownFormatError(f"{key} has format version {version}, not {FORMAT_VERSION}")
    assert isinstance(fields, dict)
    return fields


def encode_cluster(cluster_id: str, login_secret: bytes) -> bytes:
    """The value of CLUSTER."""
    return encode({"cluster_id": cluster_id, "login_secret": b64encode(login_secret).decode()})


def decode_login_secret(fields: Mapping[str, Any]) -> bytes:
    """The secret in the value of CLUSTER; empty if it is from before there was one."""
    return b64decode(fields.get("login_secret", ""))


def encode_registration(node: NodeState) -> bytes:
    """The value of a node's registration."""
    return encode(
        {
            "address": node.address,
            "rack": node.rack,
            "incarnation": node.incarnation,
            "log_dirs": list(node.log_dirs),
            "static_configs": dict(node.static_configs),
        }
    )


def encode_node_state(node: NodeState) -> bytes:
    """The value of a node's state."""
    return encode(
        {
            "fenced": node.fenced,
            "draining": node.draining,
            "decommissioning": node.decommissioning,
        }
    )


def encode_gateway(state: GatewayState) -> bytes:
    """A gateway's value."""
    return encode(
        {
            "host": state.host,
            "port": state.port,
            "single_port": state.single_port,
            "rack": state.rack,
            "node": state.node_id,
            "listeners": [[each.name, each.host, each.port] for each in state.listeners],
            "instance_port_shift": state.instance_port_shift,
        }
    )


def decode_gateway(gateway_id: str, fields: Mapping[str, Any]) -> GatewayState:
    """A gateway from its value."""
    return GatewayState(
        gateway_id=GatewayId(gateway_id),
        host=fields["host"],
        port=fields["port"],
        single_port=fields["single_port"],
        rack=fields["rack"],
        node_id=NodeId(fields.get("node", NO_NODE)),
        listeners=tuple(
            GatewayListener(name=name, host=host, port=port)
            for name, host, port in fields.get("listeners", ())
        ),
        instance_port_shift=fields.get("instance_port_shift", 0),
    )


def encode_instance(state: InstanceState) -> bytes:
    """An instance's value."""
    return encode(
        {
            "produce": state.produce_bytes_per_second,
            "consume": state.consume_bytes_per_second,
            "storage": state.storage_bytes,
            "listeners": [
                [each.listener, each.port, each.advertised_host, each.advertised_port]
                for each in state.listeners
            ],
            "allowed": state.allowed_networks,
            "connections": state.connections_max,
            "partitions": state.partitions_max,
            "groups": state.groups_max,
            "message_bytes": state.message_bytes_max,
            "protected": state.delete_protection,
            "purge_at_ms": state.purge_at_ms,
            "token_audience": state.token_audience,
            "certificates": state.certificates,
            "open": state.open_if_no_acl,
        }
    )


def decode_instance(instance_id: str, fields: Mapping[str, Any]) -> InstanceState:
    """An instance from its value; one from before instances had ports has only the rates and storage."""
    allowed = fields.get("allowed")
    return InstanceState(
        instance=InstanceId(instance_id),
        produce_bytes_per_second=fields["produce"],
        consume_bytes_per_second=fields["consume"],
        storage_bytes=fields["storage"],
        listeners=tuple(
            InstanceListener(listener=name, port=port, advertised_host=host, advertised_port=shown)
            for name, port, host, shown in fields.get("listeners", ())
        ),
        allowed_networks=None if allowed is None else tuple(allowed),
        connections_max=fields.get("connections"),
        partitions_max=fields.get("partitions"),
        groups_max=fields.get("groups"),
        message_bytes_max=fields.get("message_bytes"),
        delete_protection=fields.get("protected", False),
        purge_at_ms=fields.get("purge_at_ms"),
        token_audience=fields.get("token_audience", ""),
        certificates=fields.get("certificates", False),
        open_if_no_acl=fields.get("open"),
    )


def encode_topic(state: TopicState) -> bytes:
    """A topic's value, without its partitions."""
    return encode(
        {
            "instance": state.instance,
            "name": state.name,
            "partitions": len(state.partitions),
            "internal": state.internal,
            "configs": dict(state.configs),
        }
    )


def decode_topic(
    topic_id: TopicId, fields: Mapping[str, Any], states: Sequence[PartitionState]
) -> TopicState:
    """A topic from its value and its partitions in order."""
    return TopicState(
        topic_id=topic_id,
        instance=InstanceId(fields["instance"]),
        name=fields["name"],
        partitions=tuple(states),
        configs=fields["configs"],
        internal=fields["internal"],
    )


def encode_partition(state: PartitionState) -> bytes:
    """A partition's value."""
    return encode(
        {
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "epoch": state.partition_epoch,
            "replicas": state.replicas,
            "isr": state.isr,
            "elr": state.eligible_leaders,
            "last_leader": state.last_known_leader,
            "adding": state.adding_replicas,
            "removing": state.removing_replicas,
        }
    )


def decode_partition(number: int, fields: Mapping[str, Any]) -> PartitionState:
    """A partition from its value."""
    return PartitionState(
        partition=number,
        leader=NodeId(fields["leader"]),
        leader_epoch=LeaderEpoch(fields["leader_epoch"]),
        partition_epoch=fields["epoch"],
        replicas=tuple(fields["replicas"]),
        isr=tuple(fields["isr"]),
        eligible_leaders=tuple(fields["elr"]),
        last_known_leader=NodeId(fields["last_leader"]),
        adding_replicas=tuple(fields["adding"]),
        removing_replicas=tuple(fields["removing"]),
    )


def encode_scram_credential(credential: ScramCredential) -> bytes:
    """A credential's value."""
    return encode(
        {
            "iterations": credential.iterations,
            "salt": b64encode(credential.salt).decode(),
            "stored_key": b64encode(credential.stored_key).decode(),
            "server_key": b64encode(credential.server_key).decode(),
        }
    )


def decode_scram_credential(fields: Mapping[str, Any]) -> ScramCredential:
    """A credential from its value."""
    return ScramCredential(
        iterations=fields["iterations"],
        salt=b64decode(fields["salt"]),
        stored_key=b64decode(fields["stored_key"]),
        server_key=b64decode(fields["server_key"]),
    )
