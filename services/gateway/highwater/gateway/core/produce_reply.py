"""Produce replies for the usual case: one topic and one partition, packed in one call, or several
partitions without an error.

Layout: Kafka's ProduceResponse.json, versions 3 to 13. Errors with a message, and older requests for
several partitions, go through the generated codec.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from highwater.kafka.primitives import uvarint

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
"""Version from which topics have ids in place of names (KIP-516)."""


def reply_struct(version: int, name_length: int) -> Struct:
    """Fields: size, correlation id, name part, partition, error, offset, times, throttle."""
    if version >= TOPIC_IDS_FROM:
        return Struct(">ii2s16sBihqqq4sib")
    if version >= FLEXIBLE_FROM:
        prefix = 1 if name_length + 1 < 0x80 else 2
        return Struct(f">ii2s{prefix + name_length}sBihqqq4sib")
    after = {2: "", 3: "", 4: "", 5: "q", 6: "q", 7: "q"}.get(version, "q6s")
    return Struct(f">iii{2 + name_length}siihqq{after}i")


def pack_reply(
    layout: Struct,
    version: int,
    correlation_id: int,
    name: bytes,
    partition: int,
    error_code: int,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
    throttle_ms: int,
) -> bytes:
    """The whole frame, with its size prefix."""
    size = layout.size - 4
    if version >= FLEXIBLE_FROM:
        return layout.pack(
            size,
            correlation_id,
            b"\0\2",
            name,
            2,
            partition,
            error_code,
            base_offset,
            log_append_time_ms,
            log_start_offset,
            b"\1\0\0\0",
            throttle_ms,
            0,
        )
    head = (size, correlation_id, 1, name, 1, partition, error_code)
    if version < 5:
        return layout.pack(*head, base_offset, log_append_time_ms, throttle_ms)
    if version < 8:
        return layout.pack(*head, base_offset, log_append_time_ms, log_start_offset, throttle_ms)
    return layout.pack(
        *head,
        base_offset,
        log_append_time_ms,
        log_start_offset,
        b"\0\0\0\0\xff\xff",
        throttle_ms,
    )


_HEAD: Final = Struct(">iix")
"""Size, correlation id, no tagged fields of the header."""
_TAIL: Final = Struct(">ix")
"""Throttle time, no tagged fields."""
_PARTITION: Final = Struct(">ihqqq3s")
_NOTHING_MORE: Final = b"\1\0\0"
"""Of a partition: no record errors, no message, no tagged fields."""

Stored = tuple[int, int, int, int]
"""Of a partition without an error: its number, base offset, log append time and log start offset."""


def pack_replies(
    correlation_id: int, topics: Sequence[tuple[bytes, Sequence[Stored]]], throttle_ms: int
) -> bytes:
    """The whole frame of several partitions by topic (`name_part`), from version `FLEXIBLE_FROM` on."""
    parts = [uvarint(len(topics) + 1)]
    for name, partitions in topics:
        parts += (name, uvarint(len(partitions) + 1))
        parts += [
            _PARTITION.pack(number, 0, base_offset, append_time_ms, start_offset, _NOTHING_MORE)
            for number, base_offset, append_time_ms, start_offset in partitions
        ]
        parts.append(b"\0")
    body = b"".join(parts)
    size = _HEAD.size - 4 + len(body) + _TAIL.size
    return _HEAD.pack(size, correlation_id) + body + _TAIL.pack(throttle_ms)


def name_part(version: int, name: bytes, topic_id: bytes) -> bytes:
    """The topic as encoded in the reply: its name with a length prefix, or its id."""
    if version >= TOPIC_IDS_FROM:
        return topic_id
    if version < FLEXIBLE_FROM:
        return len(name).to_bytes(2, "big") + name
    length = len(name) + 1
    if length < 0x80:
        return bytes((length,)) + name
    return bytes((length & 0x7F | 0x80, length >> 7)) + name
