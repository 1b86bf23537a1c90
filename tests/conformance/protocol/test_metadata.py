"""Metadata: which topics are listed, which are created, and which nodes lead them."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_cluster import DescribeClusterRequest
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.model.acl_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from highwater.model.ids import NO_TOPIC_ID
from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.topics import unique_name
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

_NOT_ASKED = -(2**31)


def _metadata(
    connection: RawConnection, *names: str, version: int = 9, create: bool = False
) -> Any:
    topics = [MetadataRequestMetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create or version < 4)
    return connection.ask(request, version)


@pytest.mark.core(version=13)
@pytest.mark.parametrize("version", range(14))
def test_a_topic_and_the_brokers(
    cluster: Cluster, connection: RawConnection, made_topic: str, version: int
) -> None:
    reply = _metadata(connection, made_topic, version=version)
    nodes = {node.node_id: (node.host, node.port) for node in cluster.nodes}
    assert {one.node_id: (one.host, one.port) for one in reply.brokers} == nodes
    if version >= 1:
        assert reply.controller_id in nodes
    if version >= 2:
        assert reply.cluster_id
    topic = only(reply.topics)
    assert (topic.error_code, topic.name, topic.is_internal) == (0, made_topic, False)
    assert sorted(part.partition_index for part in topic.partitions) == [0, 1]
    for part in topic.partitions:
        assert part.error_code == ErrorCode.NONE
        assert part.leader_id in nodes
        assert list(part.replica_nodes) == list(part.isr_nodes) == [part.leader_id]
        assert list(part.offline_replicas) == []
        if version >= 7:
            assert part.leader_epoch >= 0
    assert topic.topic_authorized_operations == _NOT_ASKED
    assert (topic.topic_id != NO_TOPIC_ID) == (version >= 10)
    assert reply.error_code == ErrorCode.NONE


def test_all_topics_and_none(connection: RawConnection, made_topic: str) -> None:
    everything = connection.ask(MetadataRequest(topics=None), 9)
    assert made_topic in [topic.name for topic in everything.topics]
    assert connection.ask(MetadataRequest(topics=[]), 9).topics == []
    # In version 0 an empty list means all.
    oldest = connection.ask(MetadataRequest(topics=[]), 0)
    assert made_topic in [topic.name for topic in oldest.topics]


@pytest.mark.parametrize("name", ["", ".", "..", "sp ace", "ž", "x" * 250, "a/b"])
@pytest.mark.parametrize("create", [False, True])
def test_names_that_no_topic_has(connection: RawConnection, name: str, create: bool) -> None:
    topic = only(_metadata(connection, name, create=create).topics)
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_without_the_flag_nothing_is_created(connection: RawConnection, topic: str) -> None:
    for _ in range(2):
        found = only(_metadata(connection, topic).topics)
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    everything = connection.ask(MetadataRequest(topics=None), 9)
    assert topic not in [one.name for one in everything.topics]


@pytest.mark.core(version=9)
@pytest.mark.parametrize("version", [1, 9])
def test_with_the_flag_a_topic_is_created(
    connection: RawConnection, topic: str, version: int
) -> None:
    # The first answer may come before leaders are elected.
    first = only(_metadata(connection, topic, version=version, create=True).topics)
    assert first.error_code in {
        ErrorCode.NONE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    wait_until(
        lambda: only(_metadata(connection, topic).topics).error_code == ErrorCode.NONE,
        timeout_s=CLIENT_TIMEOUT_S,
        what="the topic is there",
    )
    assert len(only(_metadata(connection, topic).topics).partitions) == 1


def test_internal_topics_say_so(connection: RawConnection, cluster: Cluster) -> None:
    from tests.conformance.protocol.test_groups import find_coordinator

    find_coordinator(connection, unique_name("internal"))
    name = "__consumer_offsets"
    wait_until(
        lambda: only(_metadata(connection, name).topics).error_code == ErrorCode.NONE,
        timeout_s=CLIENT_TIMEOUT_S,
        what=name,
    )
    assert only(_metadata(connection, name).topics).is_internal


def test_authorized_operations_when_asked(connection: RawConnection, made_topic: str) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestMetadataRequestTopic(name=made_topic)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    reply = connection.ask(request, 8)
    assert only(reply.topics).topic_authorized_operations == TOPIC_OPERATIONS
    assert reply.cluster_authorized_operations == CLUSTER_OPERATIONS


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_cluster_agrees_with_metadata(connection: RawConnection, version: int) -> None:
    reply = connection.ask(DescribeClusterRequest(), version)
    metadata = _metadata(connection)
    assert reply.error_code == ErrorCode.NONE
    assert reply.cluster_id == metadata.cluster_id
    assert {(one.broker_id, one.host, one.port) for one in reply.brokers} == {
        (one.node_id, one.host, one.port) for one in metadata.brokers
    }
    assert reply.controller_id in {one.broker_id for one in reply.brokers}
    assert reply.cluster_authorized_operations == _NOT_ASKED
