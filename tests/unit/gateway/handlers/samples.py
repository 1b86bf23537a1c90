"""A small request of every API, with an item in every list that has errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.message import Message
from highwater.kafka.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)

TOPIC = "access_log"
GROUP = "readers"
TRANSACTIONAL_ID = "payments"


def sample_request(api_key: int, version: int) -> Any:
    """A valid request in that version."""
    return _SAMPLES[ApiKey(api_key)](version)


def error_codes(message: Message) -> list[int]:
    """Every error code in a response; only those of results, if there are any."""
    return list(_codes(message))


def _codes(value: Any) -> Iterator[int]:
    inner: list[int] = []
    if isinstance(value, list | tuple):
        for one in value:
            inner += _codes(one)
    elif isinstance(value, Message):
        for name in value.__slots__:
            inner += _codes(getattr(value, name))
        names = ("error_code", "partition_error_code")
        inner = inner or [getattr(value, name) for name in names if name in value.__slots__]
    yield from inner


def _alter_user_scram_credentials(_version: int) -> Any:
    upsertion = (
        alter_user_scram_credentials.AlterUserScramCredentialsRequestScramCredentialUpsertion
    )
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(
        [], [upsertion("a", 1, 4_096, b"salt", b"password")]
    )


def _offset_fetch(version: int) -> Any:
    if version >= 8:
        topics = [offset_fetch.OffsetFetchRequestOffsetFetchRequestTopics(TOPIC, bytes(16), [0, 1])]
        group = offset_fetch.OffsetFetchRequestOffsetFetchRequestGroup(GROUP, None, -1, topics)
        return offset_fetch.OffsetFetchRequest(groups=[group])
    old = [offset_fetch.OffsetFetchRequestOffsetFetchRequestTopic(TOPIC, [0, 1])]
    return offset_fetch.OffsetFetchRequest(GROUP, old)


def _leave_group(version: int) -> Any:
    if version >= 3:
        members = [leave_group.LeaveGroupRequestMemberIdentity("m-1")]
        return leave_group.LeaveGroupRequest(GROUP, members=members)
    return leave_group.LeaveGroupRequest(GROUP, "m-1")


def _alter_partition_reassignments(version: int) -> Any:
    messages = alter_partition_reassignments
    one = messages.AlterPartitionReassignmentsRequestReassignablePartition(0, [1, 2])
    return messages.AlterPartitionReassignmentsRequest(
        1_000, topics=[messages.AlterPartitionReassignmentsRequestReassignableTopic(TOPIC, [one])]
    )


def _delete_topics(version: int) -> Any:
    if version >= 6:
        return delete_topics.DeleteTopicsRequest(
            [delete_topics.DeleteTopicsRequestDeleteTopicState(TOPIC)], timeout_ms=500
        )
    return delete_topics.DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=500)


def _find_coordinator(version: int) -> Any:
    if version >= 4:
        return find_coordinator.FindCoordinatorRequest(coordinator_keys=[GROUP])
    return find_coordinator.FindCoordinatorRequest(GROUP)


def _add_partitions_to_txn(version: int) -> Any:
    topics = [add_partitions_to_txn.AddPartitionsToTxnRequestAddPartitionsToTxnTopic(TOPIC, [0])]
    if version >= 4:
        transaction = add_partitions_to_txn.AddPartitionsToTxnRequestAddPartitionsToTxnTransaction(
            TRANSACTIONAL_ID, 7_000, 3, False, topics
        )
        return add_partitions_to_txn.AddPartitionsToTxnRequest([transaction])
    return add_partitions_to_txn.AddPartitionsToTxnRequest((), TRANSACTIONAL_ID, 7_000, 3, topics)


_SAMPLES = {
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: lambda version: add_offsets_to_txn.AddOffsetsToTxnRequest(
        TRANSACTIONAL_ID, 7_000, 3, GROUP
    ),
    ApiKey.END_TXN: lambda version: end_txn.EndTxnRequest(TRANSACTIONAL_ID, 7_000, 3, True),
    ApiKey.TXN_OFFSET_COMMIT: lambda version: txn_offset_commit.TxnOffsetCommitRequest(
        TRANSACTIONAL_ID,
        GROUP,
        7_000,
        3,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTxnOffsetCommitRequestTopic(
                TOPIC,
                [
                    txn_offset_commit.TxnOffsetCommitRequestTxnOffsetCommitRequestPartition(
                        0, 42, committed_metadata=""
                    )
                ],
            )
        ],
    ),
    ApiKey.WRITE_TXN_MARKERS: lambda version: write_txn_markers.WriteTxnMarkersRequest(
        [
            write_txn_markers.WriteTxnMarkersRequestWritableTxnMarker(
                7_000,
                3,
                True,
                [write_txn_markers.WriteTxnMarkersRequestWritableTxnMarkerTopic(TOPIC, [0])],
            )
        ]
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        lambda version: describe_transactions.DescribeTransactionsRequest([TRANSACTIONAL_ID])
    ),
    ApiKey.LIST_TRANSACTIONS: lambda version: list_transactions.ListTransactionsRequest(),
    ApiKey.LIST_OFFSETS: lambda version: list_offsets.ListOffsetsRequest(
        -1,
        0,
        [
            list_offsets.ListOffsetsRequestListOffsetsTopic(
                TOPIC, [list_offsets.ListOffsetsRequestListOffsetsPartition(0, timestamp=-1)]
            )
        ],
    ),
    ApiKey.METADATA: lambda version: metadata.MetadataRequest(
        [metadata.MetadataRequestMetadataRequestTopic(name=TOPIC)]
    ),
    ApiKey.OFFSET_COMMIT: lambda version: offset_commit.OffsetCommitRequest(
        GROUP,
        topics=[
            offset_commit.OffsetCommitRequestOffsetCommitRequestTopic(
                TOPIC,
                partitions=[offset_commit.OffsetCommitRequestOffsetCommitRequestPartition(0, 42)],
            )
        ],
    ),
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.JOIN_GROUP: lambda version: join_group.JoinGroupRequest(
        GROUP,
        10_000,
        60_000 if version else -1,
        "m-1",
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestJoinGroupRequestProtocol("range", b"metadata")],
    ),
    ApiKey.HEARTBEAT: lambda version: heartbeat.HeartbeatRequest(GROUP, 3, "m-1"),
    ApiKey.LEAVE_GROUP: _leave_group,
    ApiKey.SYNC_GROUP: lambda version: sync_group.SyncGroupRequest(
        GROUP, 3, "m-1", None, *(("consumer", "range") if version >= 5 else (None, None))
    ),
    ApiKey.DESCRIBE_GROUPS: lambda version: describe_groups.DescribeGroupsRequest([GROUP]),
    ApiKey.LIST_GROUPS: lambda version: list_groups.ListGroupsRequest(),
    ApiKey.API_VERSIONS: lambda version: api_versions.ApiVersionsRequest(
        *(("test-client", "1.0") if version >= 3 else ())
    ),
    ApiKey.CREATE_TOPICS: lambda version: create_topics.CreateTopicsRequest(
        [create_topics.CreateTopicsRequestCreatableTopic(TOPIC, 3, 1)], 500
    ),
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: lambda version: delete_records.DeleteRecordsRequest(
        [
            delete_records.DeleteRecordsRequestDeleteRecordsTopic(
                TOPIC, [delete_records.DeleteRecordsRequestDeleteRecordsPartition(0, 1)]
            )
        ],
        500,
    ),
    ApiKey.INIT_PRODUCER_ID: lambda version: init_producer_id.InitProducerIdRequest(None, 60_000),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        lambda version: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderEpochRequestOffsetForLeaderTopic(
                    TOPIC,
                    [
                        offset_for_leader_epoch.OffsetForLeaderEpochRequestOffsetForLeaderPartition(
                            0, 5, 4
                        )
                    ],
                )
            ]
        )
    ),
    ApiKey.DESCRIBE_CONFIGS: lambda version: describe_configs.DescribeConfigsRequest(
        [describe_configs.DescribeConfigsRequestDescribeConfigsResource(2, TOPIC, None)]
    ),
    ApiKey.ALTER_CONFIGS: lambda version: alter_configs.AlterConfigsRequest(
        [
            alter_configs.AlterConfigsRequestAlterConfigsResource(
                2, TOPIC, [alter_configs.AlterConfigsRequestAlterableConfig("retention.ms", "1")]
            )
        ]
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: lambda version: (
        alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            [
                alter_replica_log_dirs.AlterReplicaLogDirsRequestAlterReplicaLogDir(
                    "/data",
                    [
                        alter_replica_log_dirs.AlterReplicaLogDirsRequestAlterReplicaLogDirTopic(
                            TOPIC, [0]
                        )
                    ],
                )
            ]
        )
    ),
    ApiKey.DESCRIBE_LOG_DIRS: lambda version: describe_log_dirs.DescribeLogDirsRequest(None),
    ApiKey.CREATE_PARTITIONS: lambda version: create_partitions.CreatePartitionsRequest(
        [create_partitions.CreatePartitionsRequestCreatePartitionsTopic(TOPIC, 9, None)], 500
    ),
    ApiKey.DELETE_GROUPS: lambda version: delete_groups.DeleteGroupsRequest([GROUP]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        lambda version: incremental_alter_configs.IncrementalAlterConfigsRequest(
            [
                incremental_alter_configs.IncrementalAlterConfigsRequestAlterConfigsResource(
                    2,
                    TOPIC,
                    [
                        incremental_alter_configs.IncrementalAlterConfigsRequestAlterableConfig(
                            "retention.ms", 0, "1"
                        )
                    ],
                )
            ]
        )
    ),
    ApiKey.ELECT_LEADERS: lambda version: elect_leaders.ElectLeadersRequest(
        0, [elect_leaders.ElectLeadersRequestTopicPartitions(TOPIC, [0])], 1_000
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (
        lambda version: list_partition_reassignments.ListPartitionReassignmentsRequest()
    ),
    ApiKey.OFFSET_DELETE: lambda version: offset_delete.OffsetDeleteRequest(
        GROUP,
        [
            offset_delete.OffsetDeleteRequestOffsetDeleteRequestTopic(
                TOPIC, [offset_delete.OffsetDeleteRequestOffsetDeleteRequestPartition(0)]
            )
        ],
    ),
    ApiKey.SASL_HANDSHAKE: lambda version: sasl_handshake.SaslHandshakeRequest("PLAIN"),
    ApiKey.SASL_AUTHENTICATE: lambda version: sasl_authenticate.SaslAuthenticateRequest(b"token"),
    ApiKey.CREATE_DELEGATION_TOKEN: (
        lambda version: create_delegation_token.CreateDelegationTokenRequest(max_lifetime_ms=-1)
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: (
        lambda version: renew_delegation_token.RenewDelegationTokenRequest(b"hmac", 1)
    ),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (
        lambda version: expire_delegation_token.ExpireDelegationTokenRequest(b"hmac", 1)
    ),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (
        lambda version: describe_delegation_token.DescribeDelegationTokenRequest(None)
    ),
    ApiKey.DESCRIBE_ACLS: lambda version: describe_acls.DescribeAclsRequest(1, None, 1),
    ApiKey.CREATE_ACLS: lambda version: create_acls.CreateAclsRequest(
        [create_acls.CreateAclsRequestAclCreation(2, TOPIC, 3, "User:a", "*", 3, 3)]
    ),
    ApiKey.DELETE_ACLS: lambda version: delete_acls.DeleteAclsRequest(
        [delete_acls.DeleteAclsRequestDeleteAclsFilter(2, TOPIC, 3)]
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (
        lambda version: describe_client_quotas.DescribeClientQuotasRequest(
            [describe_client_quotas.DescribeClientQuotasRequestComponentData("user", 0, "a")]
        )
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda version: alter_client_quotas.AlterClientQuotasRequest(
        [
            alter_client_quotas.AlterClientQuotasRequestEntryData(
                [alter_client_quotas.AlterClientQuotasRequestEntityData("user", "a")],
                [alter_client_quotas.AlterClientQuotasRequestOpData("producer_byte_rate", 5.0)],
            )
        ]
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (
        lambda version: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            [describe_user_scram_credentials.DescribeUserScramCredentialsRequestUserName("a")]
        )
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.DESCRIBE_QUORUM: lambda version: describe_quorum.DescribeQuorumRequest(
        [
            describe_quorum.DescribeQuorumRequestTopicData(
                "__cluster_metadata", [describe_quorum.DescribeQuorumRequestPartitionData(0)]
            )
        ]
    ),
    ApiKey.UPDATE_FEATURES: lambda version: update_features.UpdateFeaturesRequest(
        500, [update_features.UpdateFeaturesRequestFeatureUpdateKey("metadata.version", 25)]
    ),
    ApiKey.DESCRIBE_CLUSTER: lambda version: describe_cluster.DescribeClusterRequest(),
    ApiKey.DESCRIBE_PRODUCERS: lambda version: describe_producers.DescribeProducersRequest(
        [describe_producers.DescribeProducersRequestTopicRequest(TOPIC, [0])]
    ),
    ApiKey.UNREGISTER_BROKER: lambda version: unregister_broker.UnregisterBrokerRequest(3),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        lambda version: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            GROUP, "m-1", 0, subscribed_topic_names=[TOPIC], topic_partitions=[]
        )
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        lambda version: consumer_group_describe.ConsumerGroupDescribeRequest([GROUP])
    ),
    ApiKey.LIST_CONFIG_RESOURCES: lambda version: list_config_resources.ListConfigResourcesRequest(
        [16] if version else []
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        lambda version: describe_topic_partitions.DescribeTopicPartitionsRequest(
            [describe_topic_partitions.DescribeTopicPartitionsRequestTopicRequest(TOPIC)]
        )
    ),
}
