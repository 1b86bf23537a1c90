"""The fields of requests that are filled by hand, each with a value or a function of the filling.

Everything else is filled from the schemas (`tests.cluster.border.requests`). A list of dicts is a list of
structs, whose other fields are filled as usual.
"""

from __future__ import annotations

from typing import Any

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequestCursor,
)
from highwater.kafka.records.message_set import append_message
from tests.cluster.border.requests import Filling, Form
from tests.support.log_batches import make_batch

BYTES_MAX = 1 << 20
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Types of config resources; of ACLs' resources TOPIC is the same."""
ACL_GROUP, ACL_CLUSTER, ACL_TRANSACTIONAL_ID, ACL_USER = 3, 4, 5, 7
ANY, LITERAL, ALL, ALLOW = 1, 3, 2, 3
SCRAM_SHA_256 = 1
EXACT, OF_ANY_NAME = 0, 2
"""How a component of a quota filter matches."""

CONFIGS = {
    TOPIC: ("retention.ms", "7777777"),
    CLIENT_METRICS: ("interval.ms", "7000"),
    GROUP: ("consumer.session.timeout.ms", "50000"),
}
"""What requests set; owners have other values."""

_FIRST_OF_FORMAT_1, _FIRST_OF_FORMAT_2 = 2, 3
"""Versions of Produce."""
_METADATA_BY_ID = 12
"""The first version of Metadata that finds topics by id."""


def _records(filling: Filling) -> bytes:
    if filling.version < _FIRST_OF_FORMAT_2:
        out = bytearray()
        magic = 1 if filling.version == _FIRST_OF_FORMAT_1 else 0
        append_message(
            out, magic=magic, offset=0, attributes=0, timestamp=1000, key=None, value=b"v"
        )
        return bytes(out)
    return bytes(
        make_batch(
            producer_id=filling.names.producer_id,
            producer_epoch=filling.names.producer_epoch,
            base_sequence=1,
            transactional=filling.form is not Form.NULL,
        )
    )


def _resources(filling: Filling) -> list[dict[str, Any]]:
    """Of every type, brokers by id and all of them."""
    names = filling.names
    named = (
        *((TOPIC, names.topic), (GROUP, names.group), (CLIENT_METRICS, names.subscription)),
        *((BROKER, str(filling.node)), (BROKER, ""), (LOGGER, str(filling.node))),
    )
    return [{"resource_type": kind, "resource_name": name} for kind, name in named]


def _settings(filling: Filling) -> list[dict[str, Any]]:
    """Of the types that every instance may alter. Brokers have a test of their own."""
    found = []
    for resource in _resources(filling):
        kind = resource["resource_type"]
        if kind in CONFIGS:
            name, value = CONFIGS[kind]
            said = {"name": name, "value": None if filling.form is Form.NULL else value}
            found.append({**resource, "configs": [said]})
    return found


def _acls(filling: Filling) -> list[dict[str, Any]]:
    names = filling.names
    named = (
        *((TOPIC, names.topic), (ACL_GROUP, names.group), (ACL_CLUSTER, "kafka-cluster")),
        *((ACL_TRANSACTIONAL_ID, names.transactional_id), (ACL_USER, f"User:{names.user}")),
    )
    return [{"resource_type": kind, "resource_name": name} for kind, name in named]


def _principal(filling: Filling) -> str:
    return f"User:{filling.names.user}"


def _entity(filling: Filling) -> list[dict[str, Any]]:
    names = filling.names
    return [
        {"entity_type": "user", "entity_name": names.user},
        {"entity_type": "client-id", "entity_name": names.client_id},
    ]


def _components(filling: Filling) -> list[dict[str, Any]]:
    """With null names: those that have any."""
    if filling.form is Form.NULL:
        return [
            {"entity_type": kind, "match_type": OF_ANY_NAME, "match": None}
            for kind in ("user", "client-id")
        ]
    names = filling.names
    return [
        {"entity_type": "user", "match_type": EXACT, "match": names.user},
        {"entity_type": "client-id", "match_type": EXACT, "match": names.client_id},
    ]


def _blank(yes: Any, no: Any) -> Any:
    """The one in the form BLANK, the other in all others."""
    return lambda filling: yes if filling.form is Form.BLANK else no


def _by_id(filling: Filling, first: int) -> bool:
    return filling.version >= first and filling.form is not Form.BLANK


def _name_or_none(first: int) -> Any:
    return lambda filling: None if _by_id(filling, first) else filling.names.topic


def _id_or_none(first: int) -> Any:
    return lambda filling: filling.names.topic_id if _by_id(filling, first) else bytes(16)


_ACL_FILTERS: dict[tuple[ApiKey, str], Any] = {
    (key, f"{prefix}{field}"): value
    for key, prefix in ((ApiKey.DESCRIBE_ACLS, ""), (ApiKey.DELETE_ACLS, "filters."))
    for field, value in {
        "resource_type_filter": lambda filling: TOPIC if filling.form is Form.NAMED else ANY,
        "resource_name_filter": lambda filling: filling.names.topic,
        "pattern_type_filter": ANY,
        "principal_filter": _principal,
        "host_filter": "*",
        "operation": ANY,
        "permission_type": ANY,
    }.items()
}

_BY_HAND: dict[tuple[ApiKey, str], Any] = {
    # Every replica in sync has it, so that the answer tells the most.
    (ApiKey.PRODUCE, "acks"): -1,
    (ApiKey.PRODUCE, "topic_data.partition_data.records"): _records,
    # Read at once, without a session.
    (ApiKey.FETCH, "cluster_id"): None,
    (ApiKey.FETCH, "min_bytes"): 0,
    (ApiKey.FETCH, "max_bytes"): BYTES_MAX,
    (ApiKey.FETCH, "replica_state"): None,
    (ApiKey.FETCH, "topics.partitions.partition_max_bytes"): BYTES_MAX,
    (ApiKey.FETCH, "topics.partitions.replica_directory_id"): bytes(16),
    (ApiKey.FETCH, "forgotten_topics_data"): [],
    (ApiKey.FETCH, "rack_id"): "",
    (ApiKey.LIST_OFFSETS, "replica_id"): -1,
    (ApiKey.LIST_OFFSETS, "topics.partitions.timestamp"): -1,
    # BLANK leaves topics to be made that are not there.
    (ApiKey.METADATA, "allow_auto_topic_creation"): _blank(True, False),
    # By id where that is served, in BLANK by name; a topic has one of the two.
    (ApiKey.METADATA, "topics.name"): _name_or_none(_METADATA_BY_ID),
    (ApiKey.METADATA, "topics.topic_id"): _id_or_none(_METADATA_BY_ID),
    (ApiKey.DELETE_TOPICS, "topics.name"): _name_or_none(0),
    (ApiKey.DELETE_TOPICS, "topics.topic_id"): _id_or_none(0),
    (ApiKey.OFFSET_COMMIT, "topics.partitions.committed_metadata"): "said",
    (ApiKey.TXN_OFFSET_COMMIT, "topics.partitions.committed_metadata"): "said",
    (ApiKey.FIND_COORDINATOR, "key_type"): _blank(1, 0),
    (ApiKey.FIND_COORDINATOR, "key"): lambda filling: (
        filling.names.transactional_id if filling.form is Form.BLANK else filling.names.group
    ),
    (ApiKey.FIND_COORDINATOR, "coordinator_keys"): lambda filling: [
        filling.names.transactional_id if filling.form is Form.BLANK else filling.names.group
    ],
    (ApiKey.JOIN_GROUP, "session_timeout_ms"): 10_000,
    (ApiKey.JOIN_GROUP, "protocol_type"): "consumer",
    (ApiKey.JOIN_GROUP, "protocols.name"): "range",
    (ApiKey.JOIN_GROUP, "protocols.metadata"): b"",
    (ApiKey.JOIN_GROUP, "reason"): "said",
    (ApiKey.LEAVE_GROUP, "members.reason"): "said",
    (ApiKey.SYNC_GROUP, "protocol_type"): "consumer",
    (ApiKey.SYNC_GROUP, "protocol_name"): "range",
    (ApiKey.SYNC_GROUP, "assignments.assignment"): b"",
    # No filter: everything is asked for.
    (ApiKey.LIST_GROUPS, "states_filter"): [],
    (ApiKey.LIST_GROUPS, "types_filter"): [],
    (ApiKey.SASL_HANDSHAKE, "mechanism"): "PLAIN",
    (ApiKey.SASL_AUTHENTICATE, "auth_bytes"): lambda filling: (
        f"\0{filling.names.user}\0secret".encode()
    ),
    (ApiKey.CREATE_DELEGATION_TOKEN, "owner_principal_type"): "User",
    (ApiKey.CREATE_DELEGATION_TOKEN, "owner_principal_name"): lambda filling: filling.names.user,
    (ApiKey.CREATE_DELEGATION_TOKEN, "renewers.principal_type"): "User",
    (ApiKey.CREATE_DELEGATION_TOKEN, "renewers.principal_name"): lambda filling: filling.names.user,
    (ApiKey.RENEW_DELEGATION_TOKEN, "hmac"): b"of nothing",
    (ApiKey.EXPIRE_DELEGATION_TOKEN, "hmac"): b"of nothing",
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, "owners.principal_type"): "User",
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, "owners.principal_name"): lambda filling: filling.names.user,
    (ApiKey.API_VERSIONS, "client_software_name"): "border",
    (ApiKey.API_VERSIONS, "client_software_version"): "1",
    (ApiKey.CREATE_TOPICS, "topics.num_partitions"): 1,
    (ApiKey.CREATE_TOPICS, "topics.replication_factor"): 1,
    (ApiKey.CREATE_TOPICS, "topics.assignments"): [],
    (ApiKey.CREATE_TOPICS, "topics.configs"): [],
    (ApiKey.DELETE_RECORDS, "topics.partitions.offset"): -1,
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "dirs.path"): "/no/such/directory",
    (ApiKey.CREATE_PARTITIONS, "topics.count"): 5,
    (ApiKey.CREATE_PARTITIONS, "topics.assignments"): None,
    (ApiKey.INIT_PRODUCER_ID, "transaction_timeout_ms"): 60_000,
    # BLANK is a producer that has no id yet.
    (ApiKey.INIT_PRODUCER_ID, "producer_id"): lambda filling: (
        -1 if filling.form is Form.BLANK else filling.names.producer_id
    ),
    (ApiKey.INIT_PRODUCER_ID, "producer_epoch"): lambda filling: (
        -1 if filling.form is Form.BLANK else filling.names.producer_epoch
    ),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "transactions.verify_only"): _blank(True, False),
    (ApiKey.END_TXN, "committed"): _blank(True, False),
    **_ACL_FILTERS,
    (ApiKey.CREATE_ACLS, "creations"): lambda filling: [
        {
            **one,
            "resource_pattern_type": LITERAL,
            "principal": _principal(filling),
            "host": "*",
            "operation": ALL,
            "permission_type": ALLOW,
        }
        for one in _acls(filling)
    ],
    (ApiKey.DESCRIBE_CONFIGS, "resources"): lambda filling: [
        {**one, "configuration_keys": None} for one in _resources(filling)
    ],
    (ApiKey.ALTER_CONFIGS, "resources"): _settings,
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources"): _settings,
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "users.name"): lambda filling: filling.names.user,
    # Of a user who is not there the first is refused; BLANK makes one.
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "deletions"): lambda filling: (
        []
        if filling.form is Form.BLANK
        else [{"name": filling.names.user, "mechanism": SCRAM_SHA_256}]
    ),
    (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "upsertions"): lambda filling: (
        [
            {
                "name": filling.names.user,
                "mechanism": SCRAM_SHA_256,
                "iterations": 4096,
                "salt": b"another salt",
                "salted_password": b"p" * 32,
            }
        ]
        if filling.form is Form.BLANK
        else []
    ),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "components"): _components,
    (ApiKey.ALTER_CLIENT_QUOTAS, "entries.entity"): _entity,
    (ApiKey.ALTER_CLIENT_QUOTAS, "entries.ops"): lambda filling: [
        {"key": "producer_byte_rate", "value": 7e6, "remove": filling.form is Form.BLANK}
    ],
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "allow_replication_factor_change"): True,
    (ApiKey.UPDATE_FEATURES, "feature_updates.feature"): "border.version",
    (ApiKey.UNREGISTER_BROKER, "broker_id"): lambda filling: filling.node,
    (ApiKey.DESCRIBE_CLUSTER, "endpoint_type"): 1,
    # The list of all topics from its beginning.
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, "cursor"): lambda filling: (
        None
        if filling.form is Form.EMPTY
        else DescribeTopicPartitionsRequestCursor(filling.names.topic, 0)
    ),
    (ApiKey.LIST_TRANSACTIONS, "state_filters"): [],
    (ApiKey.LIST_TRANSACTIONS, "transactional_id_pattern"): _blank(".*", None),
    # BLANK is a member that comes, and wants every topic there is.
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "member_id"): lambda filling: filling.names.member,
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "member_epoch"): lambda filling: (
        0 if filling.form is Form.BLANK else filling.names.generation
    ),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "instance_id"): lambda filling: filling.names.static_member,
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "rack_id"): None,
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "subscribed_topic_regex"): _blank(".*", None),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "server_assignor"): None,
    # Of all types.
    (ApiKey.LIST_CONFIG_RESOURCES, "resource_types"): [],
}

BY_HAND = {(int(key), path): value for (key, path), value in _BY_HAND.items()}
"""(API key, path of the field) -> its value."""
