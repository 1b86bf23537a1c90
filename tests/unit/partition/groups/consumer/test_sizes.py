"""Estimates that must never be too low."""

from __future__ import annotations

import pytest

from highwater.partition.groups.consumer.durable import (
    ConsumerRecord,
    MemberRecord,
    RegexRecord,
    TargetRecord,
)
from highwater.partition.groups.consumer.member import ClassicMember, MemberMetadata, ResolvedRegex
from highwater.partition.groups.consumer.sizes import (
    assignment_size,
    member_memory,
    member_size,
    names_size,
)
from highwater.partition.groups.consumer_records import encode
from tests.unit.partition.groups.dialogue import key
from tests.unit.partition.groups.topics import topic_id

NAMES = frozenset({"a", "b" * 200, "ü" * 70})
MEMBER = MemberMetadata(
    topic_names=NAMES,
    classic=ClassicMember(session_timeout_ms=1, protocols=(("é" * 90, bytes(300)), ("r", b""))),
)
TARGET = {topic_id("t"): tuple(range(300)), topic_id("u"): (1,)}
OVERHEAD = 40
"""Of a value whose lists are empty."""


@pytest.mark.parametrize(
    ("record", "size"),
    [
        (MemberRecord(key("g"), "m", MEMBER), member_size(MEMBER)),
        (
            RegexRecord(key("g"), "r", ResolvedRegex(topics=NAMES, version=1, timestamp_ms=1)),
            names_size(NAMES),
        ),
        (TargetRecord(key("g"), "m", TARGET), assignment_size(TARGET)),
    ],
)
def test_records_are_not_larger(record: ConsumerRecord, size: int) -> None:
    _, _, value = encode(record)
    assert value is not None
    assert size / 2 < len(value) <= size + OVERHEAD


def test_a_name_takes_more_memory_than_its_bytes() -> None:
    more = MemberMetadata(topic_names=frozenset({"a"}))
    assert member_memory(more) - member_memory(MemberMetadata()) > 100
