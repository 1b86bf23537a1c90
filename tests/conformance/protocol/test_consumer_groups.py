"""The consumer group protocol (KIP-848), message by message."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from highwater.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from highwater.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from tests.conformance.protocol.test_groups import find_coordinator
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

VERSION = 1
METADATA_VERSION = 12
HEARTBEAT_CONFIG = "consumer.heartbeat.interval.ms"
ASSIGNMENT_CONFIG = "consumer.assignment.interval.ms"
GROUP_RESOURCE, SET, DELETE = 32, 0, 1


class Coordinator:
    """Heartbeats of any members of one group, on one connection."""

    def __init__(self, connection: RawConnection, group: str) -> None:
        self.connection = connection
        self.group = group

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(self.group, member_id, epoch, **fields)
        return self.connection.ask(request, VERSION)

    def join(self, member_id: str, topic: str, **fields: Any) -> Any:
        full = {
            "rebalance_timeout_ms": 20_000,
            "subscribed_topic_names": [topic],
            "topic_partitions": [],
        }
        return self.beat(member_id, 0, **full, **fields)

    def describe(self) -> Any:
        request = ConsumerGroupDescribeRequest([self.group])
        return only(self.connection.ask(request, VERSION).groups)


@pytest.fixture
def coordinator(cluster: Cluster, group: str) -> Iterator[Coordinator]:
    with RawConnection.to(cluster.bootstrap) as connection:
        host, port = find_coordinator(connection, group)
    with RawConnection(host, port) as connection:
        yield Coordinator(connection, group)


@pytest.fixture
def topic_id(cluster: Cluster, topic: str) -> bytes:
    """Of the test's topic, which has four partitions."""
    make_topic(cluster.bootstrap, topic, partitions=4)
    with RawConnection.to(cluster.bootstrap) as connection:
        asked = MetadataRequest([MetadataRequestMetadataRequestTopic(name=topic)])
        return bytes(only(connection.ask(asked, METADATA_VERSION).topics).topic_id)


def held(answer: Any) -> dict[bytes, list[int]]:
    return {bytes(t.topic_id): sorted(t.partitions) for t in answer.assignment.topic_partitions}


def test_partitions_move_from_one_member_to_another(
    cluster: Cluster, coordinator: Coordinator, topic: str, topic_id: bytes
) -> None:
    with RawConnection.to(cluster.bootstrap) as connection:
        # Else a target may come up to a second after the member that needs it.
        _configure(connection, coordinator.group, ASSIGNMENT_CONFIG, SET, "0")
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    first = coordinator.join(one, topic)
    assert (first.error_code, first.member_id) == (0, one)
    epoch = first.member_epoch  # A group with a config begins with 2 in Kafka, with 1 here.
    assert epoch in {1, 2}
    assert held(first) == {topic_id: [0, 1, 2, 3]}
    second = coordinator.join(two, topic)
    assert (second.member_epoch, held(second)) == (epoch + 1, {})
    told = coordinator.beat(one, epoch)
    assert told.member_epoch == epoch
    kept = held(told)[topic_id]
    assert len(kept) == 2
    owned = told.assignment.topic_partitions
    assert coordinator.beat(one, epoch, topic_partitions=_owned(owned)).member_epoch == epoch + 1
    got = held(coordinator.beat(two, epoch + 1))[topic_id]
    assert sorted(kept + got) == [0, 1, 2, 3]
    group = coordinator.describe()
    assert group.group_state == "Stable"
    assert group.group_epoch == group.assignment_epoch == epoch + 1
    assert {member.member_type for member in group.members} == {1}
    assert coordinator.beat(one, -1).member_epoch == -1
    assert coordinator.beat(two, -1).error_code == ErrorCode.NONE
    assert coordinator.describe().group_state == "Empty"


def _owned(parts: Any) -> list[Any]:
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(part.topic_id, part.partitions)
        for part in parts
    ]


@pytest.mark.usefixtures("topic_id")
def test_fenced_members(coordinator: Coordinator, topic: str) -> None:
    coordinator.join("m", topic, instance_id="i")
    assert coordinator.beat("m", 7, instance_id="i").error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert coordinator.beat("x", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    taken = coordinator.join("n", topic, instance_id="i")
    assert taken.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert coordinator.beat("m", -2, instance_id="i").member_epoch == -2
    assert coordinator.join("n", topic, instance_id="i").error_code == ErrorCode.NONE
    old = coordinator.beat("m", 1, instance_id="i")
    assert old.error_code == ErrorCode.FENCED_INSTANCE_ID
    coordinator.beat("n", -1, instance_id="i")


@pytest.mark.usefixtures("topic_id")
def test_refused_requests(coordinator: Coordinator, topic: str) -> None:
    unknown = coordinator.join("m", topic, server_assignor="best")
    assert unknown.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    broken = coordinator.join("m", topic, subscribed_topic_regex="[")
    assert broken.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert coordinator.join("", topic).error_message == "MemberId can't be empty."
    assert coordinator.beat("m", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def _configure(
    connection: RawConnection, group: str, name: str, operation: int, value: str | None
) -> None:
    config = IncrementalAlterConfigsRequestAlterableConfig(name, operation, value)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(GROUP_RESOURCE, group, [config])
    answer = connection.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert only(answer.responses).error_code == ErrorCode.NONE


@pytest.mark.usefixtures("topic_id")
def test_a_group_has_the_heartbeat_interval_of_its_config(
    cluster: Cluster, coordinator: Coordinator, topic: str
) -> None:
    member = str(uuid.uuid4())
    joined = coordinator.join(member, topic)
    assert joined.heartbeat_interval_ms == 5_000

    def has_interval(interval_ms: int) -> bool:
        told: int = coordinator.beat(member, joined.member_epoch).heartbeat_interval_ms
        return told == interval_ms

    with RawConnection.to(cluster.bootstrap) as connection:
        _configure(connection, coordinator.group, HEARTBEAT_CONFIG, SET, "6000")
        try:
            wait_until(lambda: has_interval(6_000), timeout_s=10.0, what="the group's interval")
        finally:
            _configure(connection, coordinator.group, HEARTBEAT_CONFIG, DELETE, None)
    wait_until(lambda: has_interval(5_000), timeout_s=10.0, what="the broker's interval")
    coordinator.beat(member, -1)
