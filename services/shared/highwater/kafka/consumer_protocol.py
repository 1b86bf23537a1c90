"""The bytes inside JoinGroup metadata and SyncGroup assignments of consumer groups.

The broker passes them through unread; describing groups and our own small clients look inside.
In front of the generated body stands its version as int16. As in Kafka's `ConsumerProtocol`, a
version above the highest known one is read as the highest known.
"""

import struct

from highwater.kafka.errors import InvalidValueError, TruncatedError
from highwater.kafka.messages import consumer_protocol_assignment as assignment_codec
from highwater.kafka.messages import consumer_protocol_subscription as subscription_codec
from highwater.kafka.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from highwater.kafka.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from highwater.kafka.primitives import Buffer

PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose members speak this."""

_VERSION = struct.Struct(">h")


def decode_subscription(buf: Buffer) -> ConsumerProtocolSubscription:
    """Decode the metadata of a member; raises DecodeError."""
    version = _read_version(buf, subscription_codec.MAX_VERSION)
    return subscription_codec.decode(buf, _VERSION.size, version)


def encode_subscription(message: ConsumerProtocolSubscription, version: int) -> bytes:
    """Encode the metadata of a member."""
    return _VERSION.pack(version) + subscription_codec.encode(message, version)


def decode_assignment(buf: Buffer) -> ConsumerProtocolAssignment:
    """Decode what the group's leader assigned to a member; raises DecodeError."""
    version = _read_version(buf, assignment_codec.MAX_VERSION)
    return assignment_codec.decode(buf, _VERSION.size, version)


def encode_assignment(message: ConsumerProtocolAssignment, version: int) -> bytes:
    """Encode what the group's leader assigned to a member."""
    return _VERSION.pack(version) + assignment_codec.encode(message, version)


def _read_version(buf: Buffer, version_max: int) -> int:
    if len(buf) < _VERSION.size:
        raise TruncatedError("consumer protocol data ends before its version")
    version: int = _VERSION.unpack_from(buf)[0]
    if version < 0:
        raise InvalidValueError(f"consumer protocol version {version}")
    return min(version, version_max)
