from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PartitionState(_message.Message):
    __slots__ = ("partition", "leader", "leader_epoch", "partition_epoch", "replicas", "isr", "eligible_leaders", "last_known_leader", "adding_replicas", "removing_replicas")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ISR_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_LEADERS_FIELD_NUMBER: _ClassVar[int]
    LAST_KNOWN_LEADER_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    isr: _containers.RepeatedScalarFieldContainer[int]
    eligible_leaders: _containers.RepeatedScalarFieldContainer[int]
    last_known_leader: int
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., isr: _Optional[_Iterable[int]] = ..., eligible_leaders: _Optional[_Iterable[int]] = ..., last_known_leader: _Optional[int] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class TopicState(_message.Message):
    __slots__ = ("topic_id", "instance", "name", "partitions", "configs", "internal")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    instance: str
    name: str
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionState]
    configs: _containers.ScalarMap[str, str]
    internal: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., instance: _Optional[str] = ..., name: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[PartitionState, _Mapping]]] = ..., configs: _Optional[_Mapping[str, str]] = ..., internal: _Optional[bool] = ...) -> None: ...

class ChangedPartitions(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionState]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[PartitionState, _Mapping]]] = ...) -> None: ...

class NodeState(_message.Message):
    __slots__ = ("node_id", "node_epoch", "address", "rack", "incarnation", "log_dirs", "fenced", "draining", "static_configs", "decommissioning")
    class StaticConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    STATIC_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    DECOMMISSIONING_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    node_epoch: int
    address: str
    rack: str
    incarnation: str
    log_dirs: _containers.RepeatedScalarFieldContainer[str]
    fenced: bool
    draining: bool
    static_configs: _containers.ScalarMap[str, str]
    decommissioning: bool
    def __init__(self, node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., incarnation: _Optional[str] = ..., log_dirs: _Optional[_Iterable[str]] = ..., fenced: _Optional[bool] = ..., draining: _Optional[bool] = ..., static_configs: _Optional[_Mapping[str, str]] = ..., decommissioning: _Optional[bool] = ...) -> None: ...

class GatewayListener(_message.Message):
    __slots__ = ("name", "host", "port")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    name: str
    host: str
    port: int
    def __init__(self, name: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ...) -> None: ...

class GatewayState(_message.Message):
    __slots__ = ("gateway_id", "host", "port", "single_port", "rack", "node_id", "listeners", "instance_port_shift")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    SINGLE_PORT_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_PORT_SHIFT_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    host: str
    port: int
    single_port: bool
    rack: str
    node_id: int
    listeners: _containers.RepeatedCompositeFieldContainer[GatewayListener]
    instance_port_shift: int
    def __init__(self, gateway_id: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., single_port: _Optional[bool] = ..., rack: _Optional[str] = ..., node_id: _Optional[int] = ..., listeners: _Optional[_Iterable[_Union[GatewayListener, _Mapping]]] = ..., instance_port_shift: _Optional[int] = ...) -> None: ...

class InstanceListener(_message.Message):
    __slots__ = ("listener", "port", "advertised_host", "advertised_port")
    LISTENER_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    ADVERTISED_HOST_FIELD_NUMBER: _ClassVar[int]
    ADVERTISED_PORT_FIELD_NUMBER: _ClassVar[int]
    listener: str
    port: int
    advertised_host: str
    advertised_port: int
    def __init__(self, listener: _Optional[str] = ..., port: _Optional[int] = ..., advertised_host: _Optional[str] = ..., advertised_port: _Optional[int] = ...) -> None: ...

class Networks(_message.Message):
    __slots__ = ("cidr",)
    CIDR_FIELD_NUMBER: _ClassVar[int]
    cidr: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cidr: _Optional[_Iterable[str]] = ...) -> None: ...

class InstanceState(_message.Message):
    __slots__ = ("instance", "produce_bytes_per_second", "consume_bytes_per_second", "storage_bytes", "listeners", "allowed_networks", "connections_max", "partitions_max", "groups_max", "message_bytes_max", "delete_protection", "purge_at_ms", "token_audience", "certificates", "open_if_no_acl")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PRODUCE_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CONSUME_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STORAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_NETWORKS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    GROUPS_MAX_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    DELETE_PROTECTION_FIELD_NUMBER: _ClassVar[int]
    PURGE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_AUDIENCE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    OPEN_IF_NO_ACL_FIELD_NUMBER: _ClassVar[int]
    instance: str
    produce_bytes_per_second: int
    consume_bytes_per_second: int
    storage_bytes: int
    listeners: _containers.RepeatedCompositeFieldContainer[InstanceListener]
    allowed_networks: Networks
    connections_max: int
    partitions_max: int
    groups_max: int
    message_bytes_max: int
    delete_protection: bool
    purge_at_ms: int
    token_audience: str
    certificates: bool
    open_if_no_acl: bool
    def __init__(self, instance: _Optional[str] = ..., produce_bytes_per_second: _Optional[int] = ..., consume_bytes_per_second: _Optional[int] = ..., storage_bytes: _Optional[int] = ..., listeners: _Optional[_Iterable[_Union[InstanceListener, _Mapping]]] = ..., allowed_networks: _Optional[_Union[Networks, _Mapping]] = ..., connections_max: _Optional[int] = ..., partitions_max: _Optional[int] = ..., groups_max: _Optional[int] = ..., message_bytes_max: _Optional[int] = ..., delete_protection: _Optional[bool] = ..., purge_at_ms: _Optional[int] = ..., token_audience: _Optional[str] = ..., certificates: _Optional[bool] = ..., open_if_no_acl: _Optional[bool] = ...) -> None: ...

class QuotaEntityPart(_message.Message):
    __slots__ = ("type", "name")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    type: str
    name: str
    def __init__(self, type: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class ClientQuota(_message.Message):
    __slots__ = ("instance", "entity", "values")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    instance: str
    entity: _containers.RepeatedCompositeFieldContainer[QuotaEntityPart]
    values: _containers.ScalarMap[str, float]
    def __init__(self, instance: _Optional[str] = ..., entity: _Optional[_Iterable[_Union[QuotaEntityPart, _Mapping]]] = ..., values: _Optional[_Mapping[str, float]] = ...) -> None: ...

class ScramCredential(_message.Message):
    __slots__ = ("iterations", "salt", "stored_key", "server_key")
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    def __init__(self, iterations: _Optional[int] = ..., salt: _Optional[bytes] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ...) -> None: ...

class ScramUserCredential(_message.Message):
    __slots__ = ("instance", "user", "mechanism", "credential")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    instance: str
    user: str
    mechanism: int
    credential: ScramCredential
    def __init__(self, instance: _Optional[str] = ..., user: _Optional[str] = ..., mechanism: _Optional[int] = ..., credential: _Optional[_Union[ScramCredential, _Mapping]] = ...) -> None: ...

class Acl(_message.Message):
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

class ClientMetricsSubscription(_message.Message):
    __slots__ = ("instance", "name", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    name: str
    configs: _containers.ScalarMap[str, str]
    def __init__(self, instance: _Optional[str] = ..., name: _Optional[str] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GroupConfigs(_message.Message):
    __slots__ = ("instance", "group_id", "configs")
    class ConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    instance: str
    group_id: str
    configs: _containers.ScalarMap[str, str]
    def __init__(self, instance: _Optional[str] = ..., group_id: _Optional[str] = ..., configs: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Configs(_message.Message):
    __slots__ = ("values",)
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.ScalarMap[str, str]
    def __init__(self, values: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ClusterChange(_message.Message):
    __slots__ = ("revision", "controller_epoch", "reset", "cluster_id", "topics", "removed_topics", "nodes", "removed_nodes", "gateways", "removed_gateways", "instances", "removed_instances", "node_gateways_changed", "node_gateways", "configs_changed", "cluster_configs", "node_configs", "partitions", "client_quotas", "client_metrics", "group_configs", "scram_credentials", "acls", "removed_acls")
    class NodeGatewaysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    class ClusterConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class NodeConfigsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: Configs
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[Configs, _Mapping]] = ...) -> None: ...
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_TOPICS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_NODES_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_INSTANCES_FIELD_NUMBER: _ClassVar[int]
    NODE_GATEWAYS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    NODE_GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_CHANGED_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    NODE_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_METRICS_FIELD_NUMBER: _ClassVar[int]
    GROUP_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    SCRAM_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_ACLS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    controller_epoch: int
    reset: bool
    cluster_id: str
    topics: _containers.RepeatedCompositeFieldContainer[TopicState]
    removed_topics: _containers.RepeatedScalarFieldContainer[bytes]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeState]
    removed_nodes: _containers.RepeatedScalarFieldContainer[int]
    gateways: _containers.RepeatedCompositeFieldContainer[GatewayState]
    removed_gateways: _containers.RepeatedScalarFieldContainer[str]
    instances: _containers.RepeatedCompositeFieldContainer[InstanceState]
    removed_instances: _containers.RepeatedScalarFieldContainer[str]
    node_gateways_changed: bool
    node_gateways: _containers.ScalarMap[int, str]
    configs_changed: bool
    cluster_configs: _containers.ScalarMap[str, str]
    node_configs: _containers.MessageMap[int, Configs]
    partitions: _containers.RepeatedCompositeFieldContainer[ChangedPartitions]
    client_quotas: _containers.RepeatedCompositeFieldContainer[ClientQuota]
    client_metrics: _containers.RepeatedCompositeFieldContainer[ClientMetricsSubscription]
    group_configs: _containers.RepeatedCompositeFieldContainer[GroupConfigs]
    scram_credentials: _containers.RepeatedCompositeFieldContainer[ScramUserCredential]
    acls: _containers.RepeatedCompositeFieldContainer[Acl]
    removed_acls: _containers.RepeatedCompositeFieldContainer[Acl]
    def __init__(self, revision: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., reset: _Optional[bool] = ..., cluster_id: _Optional[str] = ..., topics: _Optional[_Iterable[_Union[TopicState, _Mapping]]] = ..., removed_topics: _Optional[_Iterable[bytes]] = ..., nodes: _Optional[_Iterable[_Union[NodeState, _Mapping]]] = ..., removed_nodes: _Optional[_Iterable[int]] = ..., gateways: _Optional[_Iterable[_Union[GatewayState, _Mapping]]] = ..., removed_gateways: _Optional[_Iterable[str]] = ..., instances: _Optional[_Iterable[_Union[InstanceState, _Mapping]]] = ..., removed_instances: _Optional[_Iterable[str]] = ..., node_gateways_changed: _Optional[bool] = ..., node_gateways: _Optional[_Mapping[int, str]] = ..., configs_changed: _Optional[bool] = ..., cluster_configs: _Optional[_Mapping[str, str]] = ..., node_configs: _Optional[_Mapping[int, Configs]] = ..., partitions: _Optional[_Iterable[_Union[ChangedPartitions, _Mapping]]] = ..., client_quotas: _Optional[_Iterable[_Union[ClientQuota, _Mapping]]] = ..., client_metrics: _Optional[_Iterable[_Union[ClientMetricsSubscription, _Mapping]]] = ..., group_configs: _Optional[_Iterable[_Union[GroupConfigs, _Mapping]]] = ..., scram_credentials: _Optional[_Iterable[_Union[ScramUserCredential, _Mapping]]] = ..., acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ..., removed_acls: _Optional[_Iterable[_Union[Acl, _Mapping]]] = ...) -> None: ...
