from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AppendOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPEND_OUTCOME_UNSPECIFIED: _ClassVar[AppendOutcome]
    APPEND_OUTCOME_NOT_APPENDED: _ClassVar[AppendOutcome]
    APPEND_OUTCOME_APPENDED: _ClassVar[AppendOutcome]
    APPEND_OUTCOME_UNKNOWN: _ClassVar[AppendOutcome]
APPEND_OUTCOME_UNSPECIFIED: AppendOutcome
APPEND_OUTCOME_NOT_APPENDED: AppendOutcome
APPEND_OUTCOME_APPENDED: AppendOutcome
APPEND_OUTCOME_UNKNOWN: AppendOutcome

class AppendRequest(_message.Message):
    __slots__ = ("header_bytes", "message_id", "topic_ids", "instances", "group_topic", "group_partition", "group_leader_epoch", "group_acks", "group_batches", "batch_bytes", "deadline_ms", "transactional_ids", "group_transaction", "payload")
    HEADER_BYTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    GROUP_TOPIC_FIELD_NUMBER: _ClassVar[int]
    GROUP_PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_ACKS_FIELD_NUMBER: _ClassVar[int]
    GROUP_BATCHES_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_IDS_FIELD_NUMBER: _ClassVar[int]
    GROUP_TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    header_bytes: int
    message_id: int
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    instances: _containers.RepeatedScalarFieldContainer[str]
    group_topic: _containers.RepeatedScalarFieldContainer[int]
    group_partition: _containers.RepeatedScalarFieldContainer[int]
    group_leader_epoch: _containers.RepeatedScalarFieldContainer[int]
    group_acks: _containers.RepeatedScalarFieldContainer[int]
    group_batches: _containers.RepeatedScalarFieldContainer[int]
    batch_bytes: _containers.RepeatedScalarFieldContainer[int]
    deadline_ms: int
    transactional_ids: _containers.RepeatedScalarFieldContainer[str]
    group_transaction: _containers.RepeatedScalarFieldContainer[int]
    payload: bytes
    def __init__(self, header_bytes: _Optional[int] = ..., message_id: _Optional[int] = ..., topic_ids: _Optional[_Iterable[bytes]] = ..., instances: _Optional[_Iterable[str]] = ..., group_topic: _Optional[_Iterable[int]] = ..., group_partition: _Optional[_Iterable[int]] = ..., group_leader_epoch: _Optional[_Iterable[int]] = ..., group_acks: _Optional[_Iterable[int]] = ..., group_batches: _Optional[_Iterable[int]] = ..., batch_bytes: _Optional[_Iterable[int]] = ..., deadline_ms: _Optional[int] = ..., transactional_ids: _Optional[_Iterable[str]] = ..., group_transaction: _Optional[_Iterable[int]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("appended_message_ids", "results", "ending")
    APPENDED_MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    appended_message_ids: _containers.RepeatedScalarFieldContainer[int]
    results: _containers.RepeatedCompositeFieldContainer[AppendGroupResult]
    ending: bool
    def __init__(self, appended_message_ids: _Optional[_Iterable[int]] = ..., results: _Optional[_Iterable[_Union[AppendGroupResult, _Mapping]]] = ..., ending: _Optional[bool] = ...) -> None: ...

class AppendGroupResult(_message.Message):
    __slots__ = ("message_id", "group", "base_offsets", "log_start_offset", "log_append_time_ms", "failures", "throttle_ms", "known_batches", "known_timestamps")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    THROTTLE_MS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_BATCHES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    message_id: int
    group: int
    base_offsets: _containers.RepeatedScalarFieldContainer[int]
    log_start_offset: int
    log_append_time_ms: int
    failures: _containers.RepeatedCompositeFieldContainer[AppendFailure]
    throttle_ms: int
    known_batches: _containers.RepeatedScalarFieldContainer[int]
    known_timestamps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, message_id: _Optional[int] = ..., group: _Optional[int] = ..., base_offsets: _Optional[_Iterable[int]] = ..., log_start_offset: _Optional[int] = ..., log_append_time_ms: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[AppendFailure, _Mapping]]] = ..., throttle_ms: _Optional[int] = ..., known_batches: _Optional[_Iterable[int]] = ..., known_timestamps: _Optional[_Iterable[int]] = ...) -> None: ...

class AppendFailure(_message.Message):
    __slots__ = ("batch", "error_code", "outcome", "message", "leader", "leader_epoch", "record_errors")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECORD_ERRORS_FIELD_NUMBER: _ClassVar[int]
    batch: int
    error_code: int
    outcome: AppendOutcome
    message: str
    leader: int
    leader_epoch: int
    record_errors: _containers.RepeatedCompositeFieldContainer[AppendRecordError]
    def __init__(self, batch: _Optional[int] = ..., error_code: _Optional[int] = ..., outcome: _Optional[_Union[AppendOutcome, str]] = ..., message: _Optional[str] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., record_errors: _Optional[_Iterable[_Union[AppendRecordError, _Mapping]]] = ...) -> None: ...

class AppendRecordError(_message.Message):
    __slots__ = ("batch_index", "message")
    BATCH_INDEX_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    batch_index: int
    message: str
    def __init__(self, batch_index: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("calls", "partitions", "instances", "topic_ids", "cancelled_call_ids", "accepts_references", "copied_bytes_max", "sets", "places", "ended_sets", "near", "call_near")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_CALL_IDS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    COPIED_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    SETS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    ENDED_SETS_FIELD_NUMBER: _ClassVar[int]
    NEAR_FIELD_NUMBER: _ClassVar[int]
    CALL_NEAR_FIELD_NUMBER: _ClassVar[int]
    calls: bytes
    partitions: bytes
    instances: _containers.RepeatedScalarFieldContainer[str]
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    cancelled_call_ids: _containers.RepeatedScalarFieldContainer[int]
    accepts_references: bool
    copied_bytes_max: int
    sets: bytes
    places: bytes
    ended_sets: _containers.RepeatedScalarFieldContainer[int]
    near: _containers.RepeatedCompositeFieldContainer[NearNodes]
    call_near: bytes
    def __init__(self, calls: _Optional[bytes] = ..., partitions: _Optional[bytes] = ..., instances: _Optional[_Iterable[str]] = ..., topic_ids: _Optional[_Iterable[bytes]] = ..., cancelled_call_ids: _Optional[_Iterable[int]] = ..., accepts_references: _Optional[bool] = ..., copied_bytes_max: _Optional[int] = ..., sets: _Optional[bytes] = ..., places: _Optional[bytes] = ..., ended_sets: _Optional[_Iterable[int]] = ..., near: _Optional[_Iterable[_Union[NearNodes, _Mapping]]] = ..., call_near: _Optional[bytes] = ...) -> None: ...

class NearNodes(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, nodes: _Optional[_Iterable[int]] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("header_bytes", "answers", "partitions", "references", "files", "details", "begun_messages", "places", "payload")
    HEADER_BYTES_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    header_bytes: int
    answers: bytes
    partitions: bytes
    references: bytes
    files: _containers.RepeatedCompositeFieldContainer[SegmentFile]
    details: _containers.RepeatedCompositeFieldContainer[FetchPartitionDetail]
    begun_messages: int
    places: bytes
    payload: bytes
    def __init__(self, header_bytes: _Optional[int] = ..., answers: _Optional[bytes] = ..., partitions: _Optional[bytes] = ..., references: _Optional[bytes] = ..., files: _Optional[_Iterable[_Union[SegmentFile, _Mapping]]] = ..., details: _Optional[_Iterable[_Union[FetchPartitionDetail, _Mapping]]] = ..., begun_messages: _Optional[int] = ..., places: _Optional[bytes] = ..., payload: _Optional[bytes] = ...) -> None: ...

class SegmentFile(_message.Message):
    __slots__ = ("path", "log_dir", "inode")
    PATH_FIELD_NUMBER: _ClassVar[int]
    LOG_DIR_FIELD_NUMBER: _ClassVar[int]
    INODE_FIELD_NUMBER: _ClassVar[int]
    path: str
    log_dir: int
    inode: int
    def __init__(self, path: _Optional[str] = ..., log_dir: _Optional[int] = ..., inode: _Optional[int] = ...) -> None: ...

class FetchPartitionDetail(_message.Message):
    __slots__ = ("index", "aborted_transactions", "diverging_epoch", "diverging_end_offset", "leader", "leader_epoch", "preferred_replica")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ABORTED_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    DIVERGING_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIVERGING_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_REPLICA_FIELD_NUMBER: _ClassVar[int]
    index: int
    aborted_transactions: _containers.RepeatedCompositeFieldContainer[AbortedTransaction]
    diverging_epoch: int
    diverging_end_offset: int
    leader: int
    leader_epoch: int
    preferred_replica: int
    def __init__(self, index: _Optional[int] = ..., aborted_transactions: _Optional[_Iterable[_Union[AbortedTransaction, _Mapping]]] = ..., diverging_epoch: _Optional[int] = ..., diverging_end_offset: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., preferred_replica: _Optional[int] = ...) -> None: ...

class AbortedTransaction(_message.Message):
    __slots__ = ("producer_id", "first_offset")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    first_offset: int
    def __init__(self, producer_id: _Optional[int] = ..., first_offset: _Optional[int] = ...) -> None: ...

class ReplicateRequest(_message.Message):
    __slots__ = ("request_id", "node_id", "node_epoch", "topic_ids", "partitions", "forgotten", "max_wait_ms", "max_bytes", "partition_max_bytes", "accepts_references", "bytes_only", "log_starts")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITION_MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    BYTES_ONLY_FIELD_NUMBER: _ClassVar[int]
    LOG_STARTS_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    node_id: int
    node_epoch: int
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    partitions: bytes
    forgotten: bytes
    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    accepts_references: bool
    bytes_only: bytes
    log_starts: bytes
    def __init__(self, request_id: _Optional[int] = ..., node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., topic_ids: _Optional[_Iterable[bytes]] = ..., partitions: _Optional[bytes] = ..., forgotten: _Optional[bytes] = ..., max_wait_ms: _Optional[int] = ..., max_bytes: _Optional[int] = ..., partition_max_bytes: _Optional[int] = ..., accepts_references: _Optional[bool] = ..., bytes_only: _Optional[bytes] = ..., log_starts: _Optional[bytes] = ...) -> None: ...

class ReplicateResponse(_message.Message):
    __slots__ = ("header_bytes", "request_id", "topic_ids", "partitions", "references", "files", "payload")
    HEADER_BYTES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    header_bytes: int
    request_id: int
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    partitions: bytes
    references: bytes
    files: _containers.RepeatedCompositeFieldContainer[SegmentFile]
    payload: bytes
    def __init__(self, header_bytes: _Optional[int] = ..., request_id: _Optional[int] = ..., topic_ids: _Optional[_Iterable[bytes]] = ..., partitions: _Optional[bytes] = ..., references: _Optional[bytes] = ..., files: _Optional[_Iterable[_Union[SegmentFile, _Mapping]]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class CoordinateRequest(_message.Message):
    __slots__ = ("calls", "cancelled_call_ids")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_CALL_IDS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[CoordinatorCall]
    cancelled_call_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, calls: _Optional[_Iterable[_Union[CoordinatorCall, _Mapping]]] = ..., cancelled_call_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class CoordinatorCall(_message.Message):
    __slots__ = ("call_id", "api_key", "api_version", "instance", "client_id", "client_host", "body", "deadline_ms", "coordinator_partition", "view")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    API_KEY_FIELD_NUMBER: _ClassVar[int]
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_PARTITION_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    api_key: int
    api_version: int
    instance: str
    client_id: str
    client_host: str
    body: bytes
    deadline_ms: int
    coordinator_partition: int
    view: TopicView
    def __init__(self, call_id: _Optional[int] = ..., api_key: _Optional[int] = ..., api_version: _Optional[int] = ..., instance: _Optional[str] = ..., client_id: _Optional[str] = ..., client_host: _Optional[str] = ..., body: _Optional[bytes] = ..., deadline_ms: _Optional[int] = ..., coordinator_partition: _Optional[int] = ..., view: _Optional[_Union[TopicView, _Mapping]] = ...) -> None: ...

class TopicView(_message.Message):
    __slots__ = ("principal_type", "principal_name", "host", "visible_without_acl")
    PRINCIPAL_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    VISIBLE_WITHOUT_ACL_FIELD_NUMBER: _ClassVar[int]
    principal_type: str
    principal_name: str
    host: str
    visible_without_acl: bool
    def __init__(self, principal_type: _Optional[str] = ..., principal_name: _Optional[str] = ..., host: _Optional[str] = ..., visible_without_acl: _Optional[bool] = ...) -> None: ...

class CoordinateResponse(_message.Message):
    __slots__ = ("replies",)
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    replies: _containers.RepeatedCompositeFieldContainer[CoordinatorReply]
    def __init__(self, replies: _Optional[_Iterable[_Union[CoordinatorReply, _Mapping]]] = ...) -> None: ...

class CoordinatorReply(_message.Message):
    __slots__ = ("call_id", "error_code", "body")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    error_code: int
    body: bytes
    def __init__(self, call_id: _Optional[int] = ..., error_code: _Optional[int] = ..., body: _Optional[bytes] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("instance", "isolation_level", "partitions")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_LEVEL_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    isolation_level: int
    partitions: _containers.RepeatedCompositeFieldContainer[ListOffsetsPartition]
    def __init__(self, instance: _Optional[str] = ..., isolation_level: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[ListOffsetsPartition, _Mapping]]] = ...) -> None: ...

class ListOffsetsPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "current_leader_epoch", "timestamp")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    timestamp: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., timestamp: _Optional[int] = ...) -> None: ...

class ListOffsetsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ListOffsetsResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ListOffsetsResult, _Mapping]]] = ...) -> None: ...

class ListOffsetsResult(_message.Message):
    __slots__ = ("error_code", "timestamp", "offset", "leader_epoch")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    timestamp: int
    offset: int
    leader_epoch: int
    def __init__(self, error_code: _Optional[int] = ..., timestamp: _Optional[int] = ..., offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class OffsetsForLeaderEpochRequest(_message.Message):
    __slots__ = ("instance", "partitions")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    partitions: _containers.RepeatedCompositeFieldContainer[EpochQuestion]
    def __init__(self, instance: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[EpochQuestion, _Mapping]]] = ...) -> None: ...

class EpochQuestion(_message.Message):
    __slots__ = ("topic_id", "partition", "current_leader_epoch", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CURRENT_LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    current_leader_epoch: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., current_leader_epoch: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class OffsetsForLeaderEpochResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[EpochAnswer]
    def __init__(self, results: _Optional[_Iterable[_Union[EpochAnswer, _Mapping]]] = ...) -> None: ...

class EpochAnswer(_message.Message):
    __slots__ = ("error_code", "leader_epoch", "end_offset")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    leader_epoch: int
    end_offset: int
    def __init__(self, error_code: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class DescribeProducersRequest(_message.Message):
    __slots__ = ("instance", "partitions")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    partitions: _containers.RepeatedCompositeFieldContainer[ProducersQuestion]
    def __init__(self, instance: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[ProducersQuestion, _Mapping]]] = ...) -> None: ...

class ProducersQuestion(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...

class DescribeProducersResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ProducersAnswer]
    def __init__(self, results: _Optional[_Iterable[_Union[ProducersAnswer, _Mapping]]] = ...) -> None: ...

class ProducersAnswer(_message.Message):
    __slots__ = ("error_code", "producers")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    producers: _containers.RepeatedCompositeFieldContainer[ProducerDescription]
    def __init__(self, error_code: _Optional[int] = ..., producers: _Optional[_Iterable[_Union[ProducerDescription, _Mapping]]] = ...) -> None: ...

class ProducerDescription(_message.Message):
    __slots__ = ("producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch", "current_txn_start_offset")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CURRENT_TXN_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., last_sequence: _Optional[int] = ..., last_timestamp: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ..., current_txn_start_offset: _Optional[int] = ...) -> None: ...

class DeleteRecordsRequest(_message.Message):
    __slots__ = ("instance", "timeout_ms", "partitions")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    timeout_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[DeleteRecordsPartition]
    def __init__(self, instance: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[DeleteRecordsPartition, _Mapping]]] = ...) -> None: ...

class DeleteRecordsPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    offset: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class DeleteRecordsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[DeleteRecordsResult]
    def __init__(self, results: _Optional[_Iterable[_Union[DeleteRecordsResult, _Mapping]]] = ...) -> None: ...

class DeleteRecordsResult(_message.Message):
    __slots__ = ("error_code", "low_watermark")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    LOW_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    low_watermark: int
    def __init__(self, error_code: _Optional[int] = ..., low_watermark: _Optional[int] = ...) -> None: ...

class WriteTxnMarkersRequest(_message.Message):
    __slots__ = ("markers",)
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    markers: _containers.RepeatedCompositeFieldContainer[TxnMarker]
    def __init__(self, markers: _Optional[_Iterable[_Union[TxnMarker, _Mapping]]] = ...) -> None: ...

class TxnMarker(_message.Message):
    __slots__ = ("producer_id", "producer_epoch", "committed", "coordinator_epoch", "transaction_version", "partitions")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_VERSION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: _containers.RepeatedCompositeFieldContainer[TxnMarkerPartition]
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., committed: _Optional[bool] = ..., coordinator_epoch: _Optional[int] = ..., transaction_version: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[TxnMarkerPartition, _Mapping]]] = ...) -> None: ...

class TxnMarkerPartition(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class WriteTxnMarkersResponse(_message.Message):
    __slots__ = ("error_codes",)
    ERROR_CODES_FIELD_NUMBER: _ClassVar[int]
    error_codes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error_codes: _Optional[_Iterable[int]] = ...) -> None: ...

class ReadRangeRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "offset", "end_offset", "max_bytes")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    offset: int
    end_offset: int
    max_bytes: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ReadRangeResponse(_message.Message):
    __slots__ = ("error_code", "records")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    records: bytes
    def __init__(self, error_code: _Optional[int] = ..., records: _Optional[bytes] = ...) -> None: ...

class DescribeLogDirsRequest(_message.Message):
    __slots__ = ("instance", "all_topics", "topics")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ALL_TOPICS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    all_topics: bool
    topics: _containers.RepeatedCompositeFieldContainer[LogDirTopic]
    def __init__(self, instance: _Optional[str] = ..., all_topics: _Optional[bool] = ..., topics: _Optional[_Iterable[_Union[LogDirTopic, _Mapping]]] = ...) -> None: ...

class LogDirTopic(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeLogDirsResponse(_message.Message):
    __slots__ = ("dirs",)
    DIRS_FIELD_NUMBER: _ClassVar[int]
    dirs: _containers.RepeatedCompositeFieldContainer[LogDirDescription]
    def __init__(self, dirs: _Optional[_Iterable[_Union[LogDirDescription, _Mapping]]] = ...) -> None: ...

class LogDirDescription(_message.Message):
    __slots__ = ("error_code", "path", "total_bytes", "usable_bytes", "replicas")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    USABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    path: str
    total_bytes: int
    usable_bytes: int
    replicas: _containers.RepeatedCompositeFieldContainer[LogDirReplica]
    def __init__(self, error_code: _Optional[int] = ..., path: _Optional[str] = ..., total_bytes: _Optional[int] = ..., usable_bytes: _Optional[int] = ..., replicas: _Optional[_Iterable[_Union[LogDirReplica, _Mapping]]] = ...) -> None: ...

class LogDirReplica(_message.Message):
    __slots__ = ("topic_id", "partition", "size_bytes", "is_future", "offset_lag")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_FUTURE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_LAG_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    size_bytes: int
    is_future: bool
    offset_lag: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., size_bytes: _Optional[int] = ..., is_future: _Optional[bool] = ..., offset_lag: _Optional[int] = ...) -> None: ...

class AlterLogDirsRequest(_message.Message):
    __slots__ = ("changes", "paths")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[LogDirChange]
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, changes: _Optional[_Iterable[_Union[LogDirChange, _Mapping]]] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class LogDirChange(_message.Message):
    __slots__ = ("topic_id", "partition", "path")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    path: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., path: _Optional[int] = ...) -> None: ...

class AlterLogDirsResponse(_message.Message):
    __slots__ = ("error_codes",)
    ERROR_CODES_FIELD_NUMBER: _ClassVar[int]
    error_codes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error_codes: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeLoggersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeLoggersResponse(_message.Message):
    __slots__ = ("levels",)
    class LevelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.ScalarMap[str, str]
    def __init__(self, levels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AlterLoggersRequest(_message.Message):
    __slots__ = ("changes", "validate_only")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[LoggerChange]
    validate_only: bool
    def __init__(self, changes: _Optional[_Iterable[_Union[LoggerChange, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class LoggerChange(_message.Message):
    __slots__ = ("logger", "level")
    LOGGER_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    logger: str
    level: str
    def __init__(self, logger: _Optional[str] = ..., level: _Optional[str] = ...) -> None: ...

class AlterLoggersResponse(_message.Message):
    __slots__ = ("error_code", "message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    message: str
    def __init__(self, error_code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...
