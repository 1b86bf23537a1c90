"""The messages of conformance tests, and the check that exactly these are read back."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

ANY_CLIENT: frozenset[str] = frozenset()
"""Kinds of records that every client can write: non-empty text as key and value."""

EVERYTHING: frozenset[str] = frozenset({"binary", "nulls", "headers", "timestamps"})
"""Kinds that a full client can write: any bytes, null keys and values, headers, timestamps."""

_COMPRESSIBLE = "every good river ends in a sea, and every good river begins with rain; "
_TIMESTAMP_STEP_MS = 1_000
_AGE_MS = 2 * 3_600_000  # Well in the past, so that no test depends on a broker's clock.


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One record as produced; if `timestamp_ms` is None, the client sets it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One record as consumed."""

    partition: int
    offset: int
    message: Message


def make_messages(count: int, *, writes: frozenset[str], seed: int = 1) -> list[Message]:
    """Makes `count` different messages that use everything in `writes`, one second apart."""
    chance = random.Random(seed)
    first_ms = int(time.time() * 1000) - _AGE_MS
    messages = []
    for index in range(count):
        text = f"{index} {_COMPRESSIBLE * 3}{chance.random()} žluťoučký 水"
        message = Message(key=f"key-{index}".encode(), value=text.encode())
        if "binary" in writes and index % 4 == 1:
            message = replace(message, value=text.encode() + bytes(range(256)))
        if "nulls" in writes and index % 5 == 2:
            message = replace(message, key=None)
        if "nulls" in writes and index % 7 == 3:
            message = replace(message, value=None, key=f"tombstone-{index}".encode())
        if "headers" in writes and index % 3 == 0:
            message = replace(message, headers=_headers(index, writes))
        if "timestamps" in writes:
            message = replace(message, timestamp_ms=first_ms + index * _TIMESTAMP_STEP_MS)
        messages.append(message)
    return messages


def _headers(index: int, writes: frozenset[str]) -> tuple[tuple[str, bytes | None], ...]:
    headers: list[tuple[str, bytes | None]] = [
        ("trace", f"{index:032x}".encode()),
        ("trace", b"again, the same name"),
    ]
    if "binary" in writes:
        headers.append(("raw", bytes([0, 255, index % 256])))
    return tuple(headers)


def split(messages: Sequence[Message], partitions: int) -> dict[int, list[Message]]:
    """Distributes the messages to the partitions in turn."""
    return {partition: list(messages[partition::partitions]) for partition in range(partitions)}


def by_partition(stored: Iterable[Stored]) -> dict[int, list[Stored]]:
    """Groups the consumed records by partition, in order."""
    grouped: dict[int, list[Stored]] = defaultdict(list)
    for record in stored:
        grouped[record.partition].append(record)
    return dict(grouped)


def assert_read_back(sent: dict[int, list[Message]], stored: Sequence[Stored]) -> None:
    """Checks that each partition holds what was sent: all, once, in order, from offset 0."""
    got = by_partition(stored)
    assert set(got) <= {partition for partition, messages in sent.items() if messages}
    for partition, messages in sent.items():
        records = got.get(partition, [])
        offsets = [record.offset for record in records]
        assert offsets == list(range(len(messages))), f"partition {partition}: offsets {offsets}"
        for message, record in zip(messages, records, strict=True):
            assert_same(message, record)


def assert_same(sent: Message, record: Stored) -> None:
    """Checks one record field by field; the timestamp only if the sender set it."""
    got, where = record.message, f"{record.partition}@{record.offset}"
    assert got.key == sent.key, where
    assert got.value == sent.value, where
    assert got.headers == sent.headers, where
    if sent.timestamp_ms is not None:
        assert got.timestamp_ms == sent.timestamp_ms, where
    else:
        assert got.timestamp_ms is not None, where
        assert abs(got.timestamp_ms - time.time() * 1000) < 10 * 60_000, where
