from highwater.api.controller.v1 import cluster_pb2 as _cluster_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConfigResourceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONFIG_RESOURCE_TYPE_UNSPECIFIED: _ClassVar[ConfigResourceType]
    CONFIG_RESOURCE_TYPE_TOPIC: _ClassVar[ConfigResourceType]
    CONFIG_RESOURCE_TYPE_NODE: _ClassVar[ConfigResourceType]
    CONFIG_RESOURCE_TYPE_CLIENT_METRICS: _ClassVar[ConfigResourceType]
    CONFIG_RESOURCE_TYPE_GROUP: _ClassVar[ConfigResourceType]

class ElectionType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ELECTION_TYPE_UNSPECIFIED: _ClassVar[ElectionType]
    ELECTION_TYPE_PREFERRED: _ClassVar[ElectionType]
    ELECTION_TYPE_UNCLEAN: _ClassVar[ElectionType]
CONFIG_RESOURCE_TYPE_UNSPECIFIED: ConfigResourceType
CONFIG_RESOURCE_TYPE_TOPIC: ConfigResourceType
CONFIG_RESOURCE_TYPE_NODE: ConfigResourceType
CONFIG_RESOURCE_TYPE_CLIENT_METRICS: ConfigResourceType
CONFIG_RESOURCE_TYPE_GROUP: ConfigResourceType
ELECTION_TYPE_UNSPECIFIED: ElectionType
ELECTION_TYPE_PREFERRED: ElectionType
ELECTION_TYPE_UNCLEAN: ElectionType

class ApiError(_message.Message):
    __slots__ = ("error_code", "message")
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_code: int
    message: str
    def __init__(self, error_code: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class SeenImage(_message.Message):
    __slots__ = ("revision", "controller_epoch", "cluster_id")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    revision: int
    controller_epoch: int
    cluster_id: str
    def __init__(self, revision: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class RegisterNodeRequest(_message.Message):
    __slots__ = ("node_id", "address", "rack", "incarnation", "log_dirs", "previous_node_epoch", "cluster_id", "static_configs", "lineage", "seen")
    class StaticConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    STATIC_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    LINEAGE_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    address: str
    rack: str
    incarnation: str
    log_dirs: _containers.RepeatedScalarFieldContainer[str]
    previous_node_epoch: int
    cluster_id: str
    static_configs: _containers.ScalarMap[str, str]
    lineage: _containers.RepeatedScalarFieldContainer[str]
    seen: SeenImage
    def __init__(self, node_id: _Optional[int] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., incarnation: _Optional[str] = ..., log_dirs: _Optional[_Iterable[str]] = ..., previous_node_epoch: _Optional[int] = ..., cluster_id: _Optional[str] = ..., static_configs: _Optional[_Mapping[str, str]] = ..., lineage: _Optional[_Iterable[str]] = ..., seen: _Optional[_Union[SeenImage, _Mapping]] = ...) -> None: ...

class RegisterNodeResponse(_message.Message):
    __slots__ = ("error", "node_id", "node_epoch", "cluster_id", "heartbeat_interval_ms", "session_timeout_ms")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    node_id: int
    node_epoch: int
    cluster_id: str
    heartbeat_interval_ms: int
    session_timeout_ms: int
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., cluster_id: _Optional[str] = ..., heartbeat_interval_ms: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ...) -> None: ...

class RegisterGatewayRequest(_message.Message):
    __slots__ = ("gateway", "seen")
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    gateway: _cluster_pb2.GatewayState
    seen: SeenImage
    def __init__(self, gateway: _Optional[_Union[_cluster_pb2.GatewayState, _Mapping]] = ..., seen: _Optional[_Union[SeenImage, _Mapping]] = ...) -> None: ...

class RegisterGatewayResponse(_message.Message):
    __slots__ = ("error", "cluster_id", "heartbeat_interval_ms", "session_timeout_ms", "login_secret")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    LOGIN_SECRET_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    cluster_id: str
    heartbeat_interval_ms: int
    session_timeout_ms: int
    login_secret: bytes
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., cluster_id: _Optional[str] = ..., heartbeat_interval_ms: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ..., login_secret: _Optional[bytes] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("node_id", "node_epoch", "gateway_id", "applied_revision", "wants_shutdown", "failed_log_dirs", "leader_count", "offline_replicas", "seen", "handed_over", "full_replicas", "waits_for_gateway")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    APPLIED_REVISION_FIELD_NUMBER: _ClassVar[int]
    WANTS_SHUTDOWN_FIELD_NUMBER: _ClassVar[int]
    FAILED_LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    LEADER_COUNT_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    HANDED_OVER_FIELD_NUMBER: _ClassVar[int]
    FULL_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_GATEWAY_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    node_epoch: int
    gateway_id: str
    applied_revision: int
    wants_shutdown: bool
    failed_log_dirs: _containers.RepeatedScalarFieldContainer[str]
    leader_count: int
    offline_replicas: _containers.RepeatedCompositeFieldContainer[OfflineReplicas]
    seen: SeenImage
    handed_over: _containers.RepeatedCompositeFieldContainer[HandedOver]
    full_replicas: _containers.RepeatedCompositeFieldContainer[FullReplicas]
    waits_for_gateway: bool
    def __init__(self, node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., gateway_id: _Optional[str] = ..., applied_revision: _Optional[int] = ..., wants_shutdown: _Optional[bool] = ..., failed_log_dirs: _Optional[_Iterable[str]] = ..., leader_count: _Optional[int] = ..., offline_replicas: _Optional[_Iterable[_Union[OfflineReplicas, _Mapping]]] = ..., seen: _Optional[_Union[SeenImage, _Mapping]] = ..., handed_over: _Optional[_Iterable[_Union[HandedOver, _Mapping]]] = ..., full_replicas: _Optional[_Iterable[_Union[FullReplicas, _Mapping]]] = ..., waits_for_gateway: _Optional[bool] = ...) -> None: ...

class HandOver(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "successor")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    successor: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., successor: _Optional[int] = ...) -> None: ...

class HandedOver(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "ready", "successor")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    ready: bool
    successor: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., ready: _Optional[bool] = ..., successor: _Optional[int] = ...) -> None: ...

class OfflineReplicas(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class FullReplicas(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("error", "fenced", "may_shut_down", "revision", "hand_over")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    MAY_SHUT_DOWN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    HAND_OVER_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    fenced: bool
    may_shut_down: bool
    revision: int
    hand_over: _containers.RepeatedCompositeFieldContainer[HandOver]
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., fenced: _Optional[bool] = ..., may_shut_down: _Optional[bool] = ..., revision: _Optional[int] = ..., hand_over: _Optional[_Iterable[_Union[HandOver, _Mapping]]] = ...) -> None: ...

class CreateTopicsRequest(_message.Message):
    __slots__ = ("instance", "topics", "validate_only", "timeout_ms")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    topics: _containers.RepeatedCompositeFieldContainer[NewTopic]
    validate_only: bool
    timeout_ms: int
    def __init__(self, instance: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[NewTopic, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class NewTopic(_message.Message):
    __slots__ = ("name", "partitions", "replication_factor", "assignments", "configs", "internal")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    replication_factor: int
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    configs: _containers.ScalarMap[str, str]
    internal: bool
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., configs: _Optional[_Mapping[str, str]] = ..., internal: _Optional[bool] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("partition", "replicas")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateTopicsResponse(_message.Message):
    __slots__ = ("results", "revision")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[TopicResult]
    revision: int
    def __init__(self, results: _Optional[_Iterable[_Union[TopicResult, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class TopicResult(_message.Message):
    __slots__ = ("error", "topic")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    topic: _cluster_pb2.TopicState
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., topic: _Optional[_Union[_cluster_pb2.TopicState, _Mapping]] = ...) -> None: ...

class DeleteTopicsRequest(_message.Message):
    __slots__ = ("instance", "topic_ids", "timeout_ms")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_IDS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    topic_ids: _containers.RepeatedScalarFieldContainer[bytes]
    timeout_ms: int
    def __init__(self, instance: _Optional[str] = ..., topic_ids: _Optional[_Iterable[bytes]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class DeleteTopicsResponse(_message.Message):
    __slots__ = ("errors", "revision")
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[ApiError]
    revision: int
    def __init__(self, errors: _Optional[_Iterable[_Union[ApiError, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class CreatePartitionsRequest(_message.Message):
    __slots__ = ("instance", "topics", "validate_only", "timeout_ms")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    topics: _containers.RepeatedCompositeFieldContainer[TopicGrowth]
    validate_only: bool
    timeout_ms: int
    def __init__(self, instance: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[TopicGrowth, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class TopicGrowth(_message.Message):
    __slots__ = ("topic_id", "count", "assignments")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    count: int
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    def __init__(self, topic_id: _Optional[bytes] = ..., count: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ...) -> None: ...

class CreatePartitionsResponse(_message.Message):
    __slots__ = ("errors", "revision")
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[ApiError]
    revision: int
    def __init__(self, errors: _Optional[_Iterable[_Union[ApiError, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class AlterConfigsRequest(_message.Message):
    __slots__ = ("instance", "changes", "validate_only")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    instance: str
    changes: _containers.RepeatedCompositeFieldContainer[ConfigChange]
    validate_only: bool
    def __init__(self, instance: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[ConfigChange, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class ConfigChange(_message.Message):
    __slots__ = ("type", "topic_id", "node_id", "set", "deleted", "replace_all", "appended", "subtracted", "name")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AppendedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SubtractedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ALL_FIELD_NUMBER: _ClassVar[int]
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    SUBTRACTED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    type: ConfigResourceType
    topic_id: bytes
    node_id: int
    set: _containers.ScalarMap[str, str]
    deleted: _containers.RepeatedScalarFieldContainer[str]
    replace_all: bool
    appended: _containers.ScalarMap[str, str]
    subtracted: _containers.ScalarMap[str, str]
    name: str
    def __init__(self, type: _Optional[_Union[ConfigResourceType, str]] = ..., topic_id: _Optional[bytes] = ..., node_id: _Optional[int] = ..., set: _Optional[_Mapping[str, str]] = ..., deleted: _Optional[_Iterable[str]] = ..., replace_all: _Optional[bool] = ..., appended: _Optional[_Mapping[str, str]] = ..., subtracted: _Optional[_Mapping[str, str]] = ..., name: _Optional[str] = ...) -> None: ...

class AlterConfigsResponse(_message.Message):
    __slots__ = ("errors", "revision")
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[ApiError]
    revision: int
    def __init__(self, errors: _Optional[_Iterable[_Union[ApiError, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("node_id", "node_epoch")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    node_epoch: int
    def __init__(self, node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsResponse(_message.Message):
    __slots__ = ("error", "start", "length")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    start: int
    length: int
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., start: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class AlterPartitionRequest(_message.Message):
    __slots__ = ("node_id", "node_epoch", "proposals")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROPOSALS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    node_epoch: int
    proposals: _containers.RepeatedCompositeFieldContainer[IsrProposal]
    def __init__(self, node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., proposals: _Optional[_Iterable[_Union[IsrProposal, _Mapping]]] = ...) -> None: ...

class IsrProposal(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "partition_epoch", "isr", "isr_node_epochs")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ISR_NODE_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: _containers.RepeatedScalarFieldContainer[int]
    isr_node_epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., isr: _Optional[_Iterable[int]] = ..., isr_node_epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class AlterPartitionResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[AlterPartitionResult]
    def __init__(self, results: _Optional[_Iterable[_Union[AlterPartitionResult, _Mapping]]] = ...) -> None: ...

class AlterPartitionResult(_message.Message):
    __slots__ = ("error", "state")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    state: _cluster_pb2.PartitionState
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., state: _Optional[_Union[_cluster_pb2.PartitionState, _Mapping]] = ...) -> None: ...

class ElectLeadersRequest(_message.Message):
    __slots__ = ("instance", "type", "all_partitions", "topics", "timeout_ms", "hand_over_ms")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ALL_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    HAND_OVER_MS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    type: ElectionType
    all_partitions: bool
    topics: _containers.RepeatedCompositeFieldContainer[TopicPartitions]
    timeout_ms: int
    hand_over_ms: int
    def __init__(self, instance: _Optional[str] = ..., type: _Optional[_Union[ElectionType, str]] = ..., all_partitions: _Optional[bool] = ..., topics: _Optional[_Iterable[_Union[TopicPartitions, _Mapping]]] = ..., timeout_ms: _Optional[int] = ..., hand_over_ms: _Optional[int] = ...) -> None: ...

class TopicPartitions(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class ElectLeadersResponse(_message.Message):
    __slots__ = ("results", "revision")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ElectionResult]
    revision: int
    def __init__(self, results: _Optional[_Iterable[_Union[ElectionResult, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class ElectionResult(_message.Message):
    __slots__ = ("topic_id", "partition", "error")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    error: ApiError
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[_Union[ApiError, _Mapping]] = ...) -> None: ...

class AlterPartitionReassignmentsRequest(_message.Message):
    __slots__ = ("instance", "reassignments", "allow_replication_factor_change", "timeout_ms")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    REASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_REPLICATION_FACTOR_CHANGE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    reassignments: _containers.RepeatedCompositeFieldContainer[PartitionReassignment]
    allow_replication_factor_change: bool
    timeout_ms: int
    def __init__(self, instance: _Optional[str] = ..., reassignments: _Optional[_Iterable[_Union[PartitionReassignment, _Mapping]]] = ..., allow_replication_factor_change: _Optional[bool] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class PartitionReassignment(_message.Message):
    __slots__ = ("topic_id", "partition", "replicas", "cancel")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    cancel: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., cancel: _Optional[bool] = ...) -> None: ...

class AlterPartitionReassignmentsResponse(_message.Message):
    __slots__ = ("errors", "revision")
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[ApiError]
    revision: int
    def __init__(self, errors: _Optional[_Iterable[_Union[ApiError, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class DecommissionNodeRequest(_message.Message):
    __slots__ = ("node_id", "moves_max", "cancel")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    MOVES_MAX_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    moves_max: int
    cancel: bool
    def __init__(self, node_id: _Optional[int] = ..., moves_max: _Optional[int] = ..., cancel: _Optional[bool] = ...) -> None: ...

class DecommissionNodeResponse(_message.Message):
    __slots__ = ("error", "replicas_left", "moving", "waiting", "revision")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_LEFT_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    replicas_left: int
    moving: int
    waiting: int
    revision: int
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., replicas_left: _Optional[int] = ..., moving: _Optional[int] = ..., waiting: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class RemoveNodeRequest(_message.Message):
    __slots__ = ("node_id", "instance")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    instance: str
    def __init__(self, node_id: _Optional[int] = ..., instance: _Optional[str] = ...) -> None: ...

class RemoveNodeResponse(_message.Message):
    __slots__ = ("error", "revision")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    revision: int
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class CreateInstanceRequest(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: _cluster_pb2.InstanceState
    def __init__(self, instance: _Optional[_Union[_cluster_pb2.InstanceState, _Mapping]] = ...) -> None: ...

class CreateInstanceResponse(_message.Message):
    __slots__ = ("error", "revision")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    revision: int
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class SetInstanceRequest(_message.Message):
    __slots__ = ("instance", "previous")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    instance: _cluster_pb2.InstanceState
    previous: _cluster_pb2.InstanceState
    def __init__(self, instance: _Optional[_Union[_cluster_pb2.InstanceState, _Mapping]] = ..., previous: _Optional[_Union[_cluster_pb2.InstanceState, _Mapping]] = ...) -> None: ...

class SetInstanceResponse(_message.Message):
    __slots__ = ("error", "revision")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    revision: int
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class DeleteInstanceRequest(_message.Message):
    __slots__ = ("instance", "purge_after_ms")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PURGE_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    purge_after_ms: int
    def __init__(self, instance: _Optional[str] = ..., purge_after_ms: _Optional[int] = ...) -> None: ...

class DeleteInstanceResponse(_message.Message):
    __slots__ = ("error", "revision", "purge_at_ms")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PURGE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    revision: int
    purge_at_ms: int
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., revision: _Optional[int] = ..., purge_at_ms: _Optional[int] = ...) -> None: ...

class RestoreInstanceRequest(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: str
    def __init__(self, instance: _Optional[str] = ...) -> None: ...

class RestoreInstanceResponse(_message.Message):
    __slots__ = ("error", "revision")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    revision: int
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class AlterClientQuotasRequest(_message.Message):
    __slots__ = ("instance", "alterations", "validate_only")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ALTERATIONS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    instance: str
    alterations: _containers.RepeatedCompositeFieldContainer[ClientQuotaAlteration]
    validate_only: bool
    def __init__(self, instance: _Optional[str] = ..., alterations: _Optional[_Iterable[_Union[ClientQuotaAlteration, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class ClientQuotaAlteration(_message.Message):
    __slots__ = ("entity", "operations")
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    entity: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.QuotaEntityPart]
    operations: _containers.RepeatedCompositeFieldContainer[ClientQuotaOperation]
    def __init__(self, entity: _Optional[_Iterable[_Union[_cluster_pb2.QuotaEntityPart, _Mapping]]] = ..., operations: _Optional[_Iterable[_Union[ClientQuotaOperation, _Mapping]]] = ...) -> None: ...

class ClientQuotaOperation(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: float
    def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class AlterClientQuotasResponse(_message.Message):
    __slots__ = ("errors", "revision")
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[ApiError]
    revision: int
    def __init__(self, errors: _Optional[_Iterable[_Union[ApiError, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class AlterScramUsersRequest(_message.Message):
    __slots__ = ("instance", "changes")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    instance: str
    changes: _containers.RepeatedCompositeFieldContainer[ScramChange]
    def __init__(self, instance: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[ScramChange, _Mapping]]] = ...) -> None: ...

class ScramChange(_message.Message):
    __slots__ = ("user", "mechanism", "credential")
    USER_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    user: str
    mechanism: int
    credential: _cluster_pb2.ScramCredential
    def __init__(self, user: _Optional[str] = ..., mechanism: _Optional[int] = ..., credential: _Optional[_Union[_cluster_pb2.ScramCredential, _Mapping]] = ...) -> None: ...

class AlterScramUsersResponse(_message.Message):
    __slots__ = ("users", "revision")
    USERS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[ScramUser]
    revision: int
    def __init__(self, users: _Optional[_Iterable[_Union[ScramUser, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class DescribeScramUsersRequest(_message.Message):
    __slots__ = ("instance", "users")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    users: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, instance: _Optional[str] = ..., users: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeScramUsersResponse(_message.Message):
    __slots__ = ("users",)
    USERS_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[ScramUser]
    def __init__(self, users: _Optional[_Iterable[_Union[ScramUser, _Mapping]]] = ...) -> None: ...

class ScramUser(_message.Message):
    __slots__ = ("user", "error", "credentials")
    USER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    user: str
    error: ApiError
    credentials: _containers.RepeatedCompositeFieldContainer[ScramInfo]
    def __init__(self, user: _Optional[str] = ..., error: _Optional[_Union[ApiError, _Mapping]] = ..., credentials: _Optional[_Iterable[_Union[ScramInfo, _Mapping]]] = ...) -> None: ...

class ScramInfo(_message.Message):
    __slots__ = ("mechanism", "iterations")
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    mechanism: int
    iterations: int
    def __init__(self, mechanism: _Optional[int] = ..., iterations: _Optional[int] = ...) -> None: ...

class CreateAclsRequest(_message.Message):
    __slots__ = ("acls",)
    ACLS_FIELD_NUMBER: _ClassVar[int]
    acls: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.Acl]
    def __init__(self, acls: _Optional[_Iterable[_Union[_cluster_pb2.Acl, _Mapping]]] = ...) -> None: ...

class CreateAclsResponse(_message.Message):
    __slots__ = ("errors", "revision")
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedCompositeFieldContainer[ApiError]
    revision: int
    def __init__(self, errors: _Optional[_Iterable[_Union[ApiError, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class DeleteAclsRequest(_message.Message):
    __slots__ = ("filters",)
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    filters: _containers.RepeatedCompositeFieldContainer[AclFilter]
    def __init__(self, filters: _Optional[_Iterable[_Union[AclFilter, _Mapping]]] = ...) -> None: ...

class AclFilter(_message.Message):
    __slots__ = ("instance", "resource_type", "pattern_type", "name", "principal", "host", "operation", "permission")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    instance: str
    resource_type: int
    pattern_type: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int
    def __init__(self, instance: _Optional[str] = ..., resource_type: _Optional[int] = ..., pattern_type: _Optional[int] = ..., name: _Optional[str] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission: _Optional[int] = ...) -> None: ...

class DeleteAclsResponse(_message.Message):
    __slots__ = ("removals", "revision")
    REMOVALS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    removals: _containers.RepeatedCompositeFieldContainer[AclRemoval]
    revision: int
    def __init__(self, removals: _Optional[_Iterable[_Union[AclRemoval, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class AclRemoval(_message.Message):
    __slots__ = ("error", "acls")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    error: ApiError
    acls: _containers.RepeatedCompositeFieldContainer[_cluster_pb2.Acl]
    def __init__(self, error: _Optional[_Union[ApiError, _Mapping]] = ..., acls: _Optional[_Iterable[_Union[_cluster_pb2.Acl, _Mapping]]] = ...) -> None: ...

class DescribeQuorumRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeQuorumResponse(_message.Message):
    __slots__ = ("leader_id", "controller_epoch", "revision", "voters", "observers")
    LEADER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    OBSERVERS_FIELD_NUMBER: _ClassVar[int]
    leader_id: int
    controller_epoch: int
    revision: int
    voters: _containers.RepeatedCompositeFieldContainer[QuorumReplica]
    observers: _containers.RepeatedCompositeFieldContainer[QuorumReplica]
    def __init__(self, leader_id: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., revision: _Optional[int] = ..., voters: _Optional[_Iterable[_Union[QuorumReplica, _Mapping]]] = ..., observers: _Optional[_Iterable[_Union[QuorumReplica, _Mapping]]] = ...) -> None: ...

class QuorumReplica(_message.Message):
    __slots__ = ("replica_id", "name", "address", "revision", "reported_ms", "caught_up_ms")
    REPLICA_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REPORTED_MS_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_MS_FIELD_NUMBER: _ClassVar[int]
    replica_id: int
    name: str
    address: str
    revision: int
    reported_ms: int
    caught_up_ms: int
    def __init__(self, replica_id: _Optional[int] = ..., name: _Optional[str] = ..., address: _Optional[str] = ..., revision: _Optional[int] = ..., reported_ms: _Optional[int] = ..., caught_up_ms: _Optional[int] = ...) -> None: ...

class WatchClusterRequest(_message.Message):
    __slots__ = ("from_revision", "cluster_id", "node_id", "node_epoch", "gateway_id", "seen")
    FROM_REVISION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    from_revision: int
    cluster_id: str
    node_id: int
    node_epoch: int
    gateway_id: str
    seen: SeenImage
    def __init__(self, from_revision: _Optional[int] = ..., cluster_id: _Optional[str] = ..., node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., gateway_id: _Optional[str] = ..., seen: _Optional[_Union[SeenImage, _Mapping]] = ...) -> None: ...
