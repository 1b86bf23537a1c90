"""The topics that a consumer group reads, according to its members' metadata.

Kafka: ConsumerProtocolSubscription.json. Every version begins with the version number and the
list of topic names; only these are read here. The bytes belong to the clients and are never
rewritten.
"""

from struct import Struct

from highwater.partition.groups.core.group import ClassicGroup

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")


def parse_topics(metadata: bytes) -> frozenset[str] | None:
    """The topic names of one subscription; None when the bytes are not a subscription."""
    if len(metadata) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(metadata)
    # Each name takes at least its length field, so a larger count is not a subscription.
    if version < 0 or count < 0 or count * _LENGTH.size > len(metadata):
        return None
    position = _HEAD.size
    topics = set()
    for _ in range(count):
        if position + _LENGTH.size > len(metadata):
            return None
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if length < 0 or position + length > len(metadata):
            return None
        try:
            topics.add(metadata[position : position + length].decode())
        except UnicodeDecodeError:
            return None
        position += length
    return frozenset(topics)


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that the group's members read; None when they are unknown."""
    if group.protocol_type != "consumer":
        return frozenset() if group.protocol_type is None or not group.members else None
    topics: set[str] = set()
    for member in group.members.values():
        parsed = None if group.protocol is None else parse_topics(member.metadata(group.protocol))
        if parsed is None:
            return None
        topics |= parsed
    return frozenset(topics)


def is_subscribed(topics: frozenset[str] | None, topic: str) -> bool:
    """Whether the group reads the topic, or might."""
    return topics is None or topic in topics
