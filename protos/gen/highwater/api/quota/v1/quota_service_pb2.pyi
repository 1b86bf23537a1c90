from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UsageReport(_message.Message):
    __slots__ = ("node_id", "node_epoch", "tick_ms", "instances", "applied_generation")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TICK_MS_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    APPLIED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    node_epoch: int
    tick_ms: int
    instances: _containers.RepeatedCompositeFieldContainer[InstanceUsage]
    applied_generation: int
    def __init__(self, node_id: _Optional[int] = ..., node_epoch: _Optional[int] = ..., tick_ms: _Optional[int] = ..., instances: _Optional[_Iterable[_Union[InstanceUsage, _Mapping]]] = ..., applied_generation: _Optional[int] = ...) -> None: ...

class InstanceUsage(_message.Message):
    __slots__ = ("instance", "produced_bytes", "consumed_bytes", "held_produce_bytes", "held_consume_bytes", "leader_partitions", "stored_bytes", "produce_bytes_per_second", "consume_bytes_per_second", "storage_exhausted")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_BYTES_FIELD_NUMBER: _ClassVar[int]
    HELD_PRODUCE_BYTES_FIELD_NUMBER: _ClassVar[int]
    HELD_CONSUME_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEADER_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PRODUCE_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CONSUME_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STORAGE_EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    instance: str
    produced_bytes: int
    consumed_bytes: int
    held_produce_bytes: int
    held_consume_bytes: int
    leader_partitions: int
    stored_bytes: int
    produce_bytes_per_second: int
    consume_bytes_per_second: int
    storage_exhausted: bool
    def __init__(self, instance: _Optional[str] = ..., produced_bytes: _Optional[int] = ..., consumed_bytes: _Optional[int] = ..., held_produce_bytes: _Optional[int] = ..., held_consume_bytes: _Optional[int] = ..., leader_partitions: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., produce_bytes_per_second: _Optional[int] = ..., consume_bytes_per_second: _Optional[int] = ..., storage_exhausted: _Optional[bool] = ...) -> None: ...

class Allocations(_message.Message):
    __slots__ = ("generation", "allocations", "expires_in_ms")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_MS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    allocations: _containers.RepeatedCompositeFieldContainer[Allocation]
    expires_in_ms: int
    def __init__(self, generation: _Optional[int] = ..., allocations: _Optional[_Iterable[_Union[Allocation, _Mapping]]] = ..., expires_in_ms: _Optional[int] = ...) -> None: ...

class Allocation(_message.Message):
    __slots__ = ("instance", "produce_bytes_per_second", "consume_bytes_per_second", "floor_produce_bytes_per_second", "floor_consume_bytes_per_second", "storage_exhausted", "storage_limit_bytes", "storage_left_bytes")
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    PRODUCE_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    CONSUME_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    FLOOR_PRODUCE_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    FLOOR_CONSUME_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    STORAGE_EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    STORAGE_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORAGE_LEFT_BYTES_FIELD_NUMBER: _ClassVar[int]
    instance: str
    produce_bytes_per_second: int
    consume_bytes_per_second: int
    floor_produce_bytes_per_second: int
    floor_consume_bytes_per_second: int
    storage_exhausted: bool
    storage_limit_bytes: int
    storage_left_bytes: int
    def __init__(self, instance: _Optional[str] = ..., produce_bytes_per_second: _Optional[int] = ..., consume_bytes_per_second: _Optional[int] = ..., floor_produce_bytes_per_second: _Optional[int] = ..., floor_consume_bytes_per_second: _Optional[int] = ..., storage_exhausted: _Optional[bool] = ..., storage_limit_bytes: _Optional[int] = ..., storage_left_bytes: _Optional[int] = ...) -> None: ...
