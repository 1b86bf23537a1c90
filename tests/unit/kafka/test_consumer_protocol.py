"""Subscriptions and assignments, against kafka-python both ways."""

import pytest
from kafka.coordinator.assignors.abstract import ConsumerProtocolAssignment as ForeignAssignment
from kafka.coordinator.assignors.abstract import ConsumerProtocolSubscription as ForeignSubscription

from highwater.kafka import consumer_protocol
from highwater.kafka.errors import DecodeError
from highwater.kafka.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from highwater.kafka.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0, 2])],
    user_data=b"state",
)


def subscription(version: int) -> ConsumerProtocolSubscription:
    message = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"x")
    if version >= 1:
        message.owned_partitions = [
            ConsumerProtocolSubscriptionTopicPartition(topic="a", partitions=[1])
        ]
    if version >= 2:
        message.generation_id = 7
    if version >= 3:
        message.rack_id = "rack-1"
    return message


@pytest.mark.parametrize("version", range(4))
def test_kafka_python_reads_and_rewrites_our_subscription(version: int) -> None:
    data = consumer_protocol.encode_subscription(subscription(version), version)
    foreign = ForeignSubscription.decode(data)
    assert list(foreign.topics) == ["a", "b"]
    assert bytes(foreign.user_data) == b"x"
    assert bytes(foreign.encode(version=version)) == data
    assert consumer_protocol.decode_subscription(data) == subscription(version)


@pytest.mark.parametrize("version", range(4))
def test_kafka_python_reads_and_rewrites_our_assignment(version: int) -> None:
    data = consumer_protocol.encode_assignment(ASSIGNMENT, version)
    foreign = ForeignAssignment.decode(data)
    assert [(item.topic, list(item.partitions)) for item in foreign.assigned_partitions] == [
        ("t", [0, 2])
    ]
    assert bytes(foreign.encode(version=version)) == data
    assert consumer_protocol.decode_assignment(memoryview(data)) == ASSIGNMENT


def test_a_newer_version_is_read_as_the_highest_known() -> None:
    data = consumer_protocol.encode_subscription(subscription(3), 3)
    newer = b"\x00\x09" + data[2:] + b"fields of the future"
    assert consumer_protocol.decode_subscription(newer) == subscription(3)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00"])
def test_malformed_data(data: bytes) -> None:
    with pytest.raises(DecodeError):
        consumer_protocol.decode_subscription(data)
    with pytest.raises(DecodeError):
        consumer_protocol.decode_assignment(data)
