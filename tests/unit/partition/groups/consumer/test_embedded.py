from __future__ import annotations

import pytest

from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.groups.consumer.embedded import (
    MalformedProtocolError,
    by_id,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tests.unit.partition.groups.consumer_dialogue import holding
from tests.unit.partition.groups.embedded_members import assigned, assignment, subscription
from tests.unit.partition.groups.topics import FakeTopics

TOPICS = FakeTopics(t=2)


def test_a_subscription() -> None:
    read = read_subscription(subscription("t", "u", rack="r", t=(0, 1)))
    assert read.topics == {"t", "u"}
    assert (read.owned, read.rack_id, read.version) == ((("t", (0, 1)),), "r", 3)


def test_version_0_and_a_newer_one() -> None:
    old = bytes.fromhex("0000 00000001 0001 74 ffffffff")
    read = read_subscription(old)
    assert (read.topics, read.owned, read.rack_id, read.version) == ({"t"}, (), None, 0)
    newer = b"\x00\x09" + subscription("t")[2:] + b"more"
    assert read_subscription(newer).version == 3


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", b"\x00\x00\x00\x00\x00\x09"])
def test_what_is_no_subscription_and_no_assignment(data: bytes) -> None:
    with pytest.raises(MalformedProtocolError):
        read_subscription(data)
    if data:
        with pytest.raises(MalformedProtocolError):
            read_assignment(data, TOPICS, DEFAULT_INSTANCE)


def test_assignments_by_id_and_name() -> None:
    data = assignment(t=(1, 0), gone=(0,))
    assert read_assignment(data, TOPICS, DEFAULT_INSTANCE) == (holding(t=(0, 1)), False)
    assert read_assignment(b"", TOPICS, DEFAULT_INSTANCE) == ({}, False)
    with_data = assignment(b"x", t=(0,))
    assert read_assignment(with_data, TOPICS, DEFAULT_INSTANCE) == (holding(t=(0,)), True)
    written = write_assignment(holding(t=(0, 1), u=(0,)), TOPICS, DEFAULT_INSTANCE, 3)
    assert assigned(written) == {"t": (0, 1)}
    assert by_id((("t", (1,)), ("u", (1,))), TOPICS, DEFAULT_INSTANCE) == holding(t=(1,))
