"""The consumer protocol that members of the classic protocol embed in their metadata.

Kafka: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json, `ConsumerProtocol`. A
newer version than we know is read as the newest that we know, which it begins with.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from highwater.kafka.errors import DecodeError
from highwater.kafka.messages import consumer_protocol_assignment as assignment_codec
from highwater.kafka.messages import consumer_protocol_subscription as subscription_codec
from highwater.model.ids import InstanceId
from highwater.partition.groups.consumer.assignment import NOTHING, assignment_of
from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.topics import Topics

PROTOCOL_TYPE: Final = "consumer"

_VERSION = Struct(">h")

NamedPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic, partitions)"""


class MalformedProtocolError(Exception):
    """The bytes are not of the consumer protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants to read, and holds."""

    version: int
    topics: frozenset[str]
    owned: NamedPartitions
    rack_id: str | None


def read_subscription(metadata: bytes) -> Subscription:
    """The content of a protocol's metadata; raises MalformedProtocolError."""
    version = _version(metadata, subscription_codec.MAX_VERSION)
    try:
        decoded = subscription_codec.decode(metadata, _VERSION.size, version)
    except DecodeError as error:
        raise MalformedProtocolError(str(error)) from error
    return Subscription(
        version=version,
        topics=frozenset(decoded.topics),
        owned=tuple((p.topic, tuple(p.partitions)) for p in decoded.owned_partitions),
        rack_id=decoded.rack_id or None,
    )


def read_assignment(
    data: bytes, topics: Topics, instance: InstanceId
) -> tuple[MemberAssignment, bool]:
    """(what was assigned of topics that exist, whether an assignor added data of its own).

    No bytes are an empty assignment. Raises MalformedProtocolError.
    """
    if not data:
        return NOTHING, False
    version = _version(data, assignment_codec.MAX_VERSION)
    try:
        decoded = assignment_codec.decode(data, _VERSION.size, version)
    except DecodeError as error:
        raise MalformedProtocolError(str(error)) from error
    named = tuple((p.topic, tuple(p.partitions)) for p in decoded.assigned_partitions)
    return by_id(named, topics, instance), bool(decoded.user_data)


def write_assignment(
    assignment: MemberAssignment, topics: Topics, instance: InstanceId, version: int
) -> bytes:
    """The assignment in a member's version; topics that no longer exist are left out."""
    found = ((topics.by_id(instance, topic_id), p) for topic_id, p in assignment.items())
    message = assignment_codec.ConsumerProtocolAssignment(
        assigned_partitions=[
            assignment_codec.ConsumerProtocolAssignmentTopicPartition(topic.name, partitions)
            for topic, partitions in found
            if topic is not None
        ]
    )
    return _VERSION.pack(version) + assignment_codec.encode(message, version)


def by_id(named: NamedPartitions, topics: Topics, instance: InstanceId) -> MemberAssignment:
    """The same by topic id; topics that do not exist are left out."""
    found = ((topics.by_name(instance, name), partitions) for name, partitions in named)
    return assignment_of(
        (topic.topic_id, partition)
        for topic, partitions in found
        if topic is not None
        for partition in partitions
    )


def _version(data: bytes, newest: int) -> int:
    if len(data) < _VERSION.size:
        raise MalformedProtocolError("no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedProtocolError(f"version {version}")
    return min(version, newest)
