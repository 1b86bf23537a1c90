"""How large the records of consumer groups are, and how much memory members take.

A record has to fit into one batch of `__consumer_offsets`: one that does not would cost the shard, with
all its groups, a reload. All estimates are never too low.
"""

from collections.abc import Iterable
from typing import Final

from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.member import ClassicMember, MemberMetadata

_LENGTH_BYTES: Final = 5
"""A length, or the count of an array, before its bytes."""
_TOPIC_BYTES: Final = 16 + _LENGTH_BYTES + 2 + 2 * _LENGTH_BYTES
"""A topic in what a member holds, without its partitions: its id, their count, and the head of the tag with
their epochs (KIP-1251)."""
_PARTITION_BYTES: Final = 8
"""A partition and its epoch."""
_MEMBER_MEMORY: Final = 1024
_NAME_MEMORY: Final = 128
"""The objects of a member and of a string, beside what their records have."""
_REFERENCE_MEMORY: Final = 64
"""A place in a set."""
_UTF8_BYTES_MAX: Final = 4
"""Bytes of one character in UTF-8, at most."""


def text_size(text: str) -> int:
    """Estimate a string's size in bytes, never too low; exact for ASCII, the usual case."""
    return len(text) if text.isascii() else _UTF8_BYTES_MAX * len(text)


def names_size(names: Iterable[str]) -> int:
    """Of the names of topics, in a member's record or in that of a regular expression."""
    return sum([text_size(name) + _LENGTH_BYTES for name in names])


def protocols_size(classic: ClassicMember) -> int:
    """Of what a member of the classic protocol sent in JoinGroup."""
    return sum(
        text_size(name) + len(metadata) + 2 * _LENGTH_BYTES for name, metadata in classic.protocols
    )


def member_size(metadata: MemberMetadata) -> int:
    """Of a member's record, its single strings not counted (`GroupConfig.list_bytes_max`)."""
    protocols = 0 if metadata.classic is None else protocols_size(metadata.classic)
    return names_size(metadata.topic_names) + protocols


def member_memory(metadata: MemberMetadata) -> int:
    """About the memory of a member."""
    return (
        _MEMBER_MEMORY
        + member_size(metadata)
        + text_size(metadata.topic_regex)
        + text_size(metadata.instance_id or "")
        + _NAME_MEMORY * len(metadata.topic_names)
    )


def regex_memory(topics: frozenset[str]) -> int:
    """About the memory of a regular expression's topics, whose names others have, too."""
    return _MEMBER_MEMORY + _REFERENCE_MEMORY * len(topics)


def assignment_size(assignment: MemberAssignment) -> int:
    """Of an assignment in the record of a member that holds it, the larger one of its two records."""
    return sum(
        [_TOPIC_BYTES + _PARTITION_BYTES * len(partitions) for partitions in assignment.values()]
    )
