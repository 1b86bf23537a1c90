"""The table of APIs: the versions that are advertised and served, and the handler of each.

Produce and Fetch have paths of their own (`produce_path`, `fetch_path`). The others are modules of
`highwater.gateway.handlers`, loaded with their codecs on first use:

- `async handle(context, request) -> response` gets and returns messages of the generated codec;
  where `raw` is set (calls for coordinators), `async handle(context, body) -> body`;
- `failure(request, version, code) -> response` puts an error code into the API's response.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from highwater.kafka.api_keys import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API. Versions from `min_version` are advertised, those from `served_from` are served.

    They differ only where old clients need a version to be advertised.
    """

    key: ApiKey
    min_version: int
    max_version: int
    served_from: int
    module: str | None
    """Name in `highwater.gateway.handlers`; None for Produce and Fetch."""
    raw: bool = False

    def serves(self, version: int) -> bool:
        """True if requests of this version are answered."""
        return self.served_from <= version <= self.max_version


def _row(
    key: ApiKey,
    versions: tuple[int, int],
    module: str | None,
    *,
    served_from: int | None = None,
    raw: bool = False,
) -> Api:
    low, high = versions
    first = low if served_from is None else served_from
    return Api(
        key=key, min_version=low, max_version=high, served_from=first, module=module, raw=raw
    )


_ROWS: Final = (
    # Without 0 in the range librdkafka before 2.11.1 stops compressing (KAFKA-18659).
    _row(ApiKey.PRODUCE, (0, 13), None, served_from=3),
    # Produce 13 and Fetch 13 name topics by id, which clients learn from Metadata 10: all or none.
    _row(ApiKey.FETCH, (4, 18), None),
    _row(ApiKey.LIST_OFFSETS, (1, 11), "list_offsets"),
    _row(ApiKey.METADATA, (0, 13), "metadata"),
    _row(ApiKey.OFFSET_COMMIT, (2, 10), "offset_commit", raw=True),
    _row(ApiKey.OFFSET_FETCH, (1, 10), "offset_fetch", raw=True),
    _row(ApiKey.FIND_COORDINATOR, (0, 6), "find_coordinator"),
    _row(ApiKey.JOIN_GROUP, (0, 9), "join_group", raw=True),
    _row(ApiKey.HEARTBEAT, (0, 4), "heartbeat", raw=True),
    _row(ApiKey.LEAVE_GROUP, (0, 5), "leave_group", raw=True),
    _row(ApiKey.SYNC_GROUP, (0, 5), "sync_group", raw=True),
    _row(ApiKey.DESCRIBE_GROUPS, (0, 6), "describe_groups"),
    _row(ApiKey.LIST_GROUPS, (0, 5), "list_groups"),
    _row(ApiKey.SASL_HANDSHAKE, (1, 1), "sasl_handshake"),
    _row(ApiKey.API_VERSIONS, (0, 4), "api_versions"),
    _row(ApiKey.CREATE_TOPICS, (2, 7), "create_topics"),
    _row(ApiKey.DELETE_TOPICS, (1, 6), "delete_topics"),
    _row(ApiKey.DELETE_RECORDS, (0, 2), "delete_records"),
    # Version 6 is for two-phase commit (KIP-939).
    _row(ApiKey.INIT_PRODUCER_ID, (0, 5), "init_producer_id"),
    _row(ApiKey.OFFSET_FOR_LEADER_EPOCH, (2, 4), "offset_for_leader_epoch"),
    _row(ApiKey.ADD_PARTITIONS_TO_TXN, (0, 5), "add_partitions_to_txn", raw=True),
    _row(ApiKey.ADD_OFFSETS_TO_TXN, (0, 4), "add_offsets_to_txn", raw=True),
    _row(ApiKey.END_TXN, (0, 5), "end_txn", raw=True),
    _row(ApiKey.WRITE_TXN_MARKERS, (1, 2), "write_txn_markers"),
    _row(ApiKey.TXN_OFFSET_COMMIT, (0, 5), "txn_offset_commit", raw=True),
    _row(ApiKey.DESCRIBE_ACLS, (1, 3), "describe_acls"),
    _row(ApiKey.CREATE_ACLS, (1, 3), "create_acls"),
    _row(ApiKey.DELETE_ACLS, (1, 3), "delete_acls"),
    _row(ApiKey.DESCRIBE_CONFIGS, (1, 4), "describe_configs"),
    _row(ApiKey.ALTER_CONFIGS, (0, 2), "alter_configs"),
    _row(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2), "alter_replica_log_dirs"),
    _row(ApiKey.DESCRIBE_LOG_DIRS, (1, 5), "describe_log_dirs"),
    _row(ApiKey.SASL_AUTHENTICATE, (0, 2), "sasl_authenticate"),
    _row(ApiKey.CREATE_PARTITIONS, (0, 3), "create_partitions"),
    _row(ApiKey.CREATE_DELEGATION_TOKEN, (1, 3), "create_delegation_token"),
    _row(ApiKey.RENEW_DELEGATION_TOKEN, (1, 2), "renew_delegation_token"),
    _row(ApiKey.EXPIRE_DELEGATION_TOKEN, (1, 2), "expire_delegation_token"),
    _row(ApiKey.DESCRIBE_DELEGATION_TOKEN, (1, 3), "describe_delegation_token"),
    _row(ApiKey.DELETE_GROUPS, (0, 2), "delete_groups"),
    _row(ApiKey.ELECT_LEADERS, (0, 2), "elect_leaders"),
    _row(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), "incremental_alter_configs"),
    _row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1), "alter_partition_reassignments"),
    _row(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), "list_partition_reassignments"),
    _row(ApiKey.OFFSET_DELETE, (0, 0), "offset_delete", raw=True),
    _row(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), "describe_client_quotas"),
    _row(ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), "alter_client_quotas"),
    _row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), "describe_user_scram_credentials"),
    _row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), "alter_user_scram_credentials"),
    _row(ApiKey.DESCRIBE_QUORUM, (0, 2), "describe_quorum"),
    _row(ApiKey.UPDATE_FEATURES, (0, 2), "update_features"),
    _row(ApiKey.DESCRIBE_CLUSTER, (0, 2), "describe_cluster"),
    _row(ApiKey.DESCRIBE_PRODUCERS, (0, 0), "describe_producers"),
    _row(ApiKey.UNREGISTER_BROKER, (0, 0), "unregister_broker"),
    _row(ApiKey.DESCRIBE_TRANSACTIONS, (0, 0), "describe_transactions"),
    _row(ApiKey.LIST_TRANSACTIONS, (0, 2), "list_transactions"),
    _row(ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1), "consumer_group_heartbeat", raw=True),
    _row(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1), "consumer_group_describe"),
    _row(ApiKey.LIST_CONFIG_RESOURCES, (0, 1), "list_config_resources"),
    _row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0, 0), "describe_topic_partitions"),
)

APIS: Final[Mapping[int, Api]] = {int(row.key): row for row in _ROWS}
"""By api key, ascending: librdkafka does a binary search in the ApiVersions response."""

# As Kafka before 4.0 (KIP-896) served them; the other versions that it removed then need no message
# of an old format, and clients of that time do not need them either.
_OLD_ROWS: Final = (
    _row(ApiKey.PRODUCE, (0, 13), None),
    _row(ApiKey.FETCH, (0, 18), None),
    _row(ApiKey.LIST_OFFSETS, (0, 11), "list_offsets"),
)

APIS_WITH_OLD_FORMATS: Final[Mapping[int, Api]] = {
    **APIS,
    **{int(row.key): row for row in _OLD_ROWS},
}
"""`APIS` with the setting `old_message_formats`."""
