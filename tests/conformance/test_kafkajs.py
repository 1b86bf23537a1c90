"""KafkaJS against the cluster: the scenarios for every client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance import scenarios
from tests.conformance.client import ACKS, CODECS
from tests.conformance.clients.line_process import ProgramError
from tests.conformance.clients.node_drivers import KAFKAJS as CLIENT
from tests.conformance.messages import Message
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster

pytestmark = pytest.mark.clients


@pytest.mark.core(codec="zstd")
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_back(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_every_acks_is_read_back(cluster: Cluster, topic: str, acks: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec="none", acks=acks)


@pytest.mark.full
@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_with_every_acks(cluster: Cluster, topic: str, codec: str, acks: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec, acks=acks)


def test_reads_from_a_timestamp(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=CLIENT)


def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=CLIENT)


def _admin(cluster: Cluster, *calls: tuple[str, Any]) -> list[dict[str, Any]]:
    lines = CLIENT.run("admin", cluster.bootstrap, {"calls": calls}).splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.core
def test_admin(cluster: Cluster, topic: str, group: str) -> None:
    new = {"topics": [{"topic": topic, "numPartitions": 2}], "waitForLeaders": True}
    described, made, again, listed, grown, offsets, fewer = _admin(
        cluster,
        ("describeCluster", None),
        ("createTopics", new),
        ("createTopics", new),
        ("listTopics", None),
        ("createPartitions", {"topicPartitions": [{"topic": topic, "count": 3}]}),
        ("fetchTopicOffsets", topic),
        ("createPartitions", {"topicPartitions": [{"topic": topic, "count": 1}]}),
    )
    nodes = {node.node_id for node in cluster.nodes}
    assert {broker["nodeId"] for broker in described["result"]["brokers"]} == nodes
    assert (made["result"], again["result"]) == (True, False), "the second time it exists"
    assert topic in listed["result"]
    assert "error" not in grown
    assert {offset["offset"] for offset in offsets["result"]} == {"0"}
    assert fewer["type"] == "INVALID_PARTITIONS"


def test_admin_of_groups(cluster: Cluster, topic: str, group: str) -> None:
    make_topic(cluster.bootstrap, topic)
    offsets = {"groupId": group, "topics": [topic]}
    set_offsets = {
        "groupId": group,
        "topic": topic,
        "partitions": [{"partition": 0, "offset": "7"}],
    }
    moved, fetched, listed, described, deleted, unknown = _admin(
        cluster,
        ("setOffsets", set_offsets),
        ("fetchOffsets", offsets),
        ("listGroups", None),
        ("describeGroups", [group]),
        ("deleteGroups", [group]),
        ("deleteGroups", [group]),
    )
    assert "error" not in moved
    assert fetched["result"][0]["partitions"][0]["offset"] == "7"
    assert group in [one["groupId"] for one in listed["result"]["groups"]]
    assert described["result"]["groups"][0]["state"] == "Empty"
    assert "error" not in deleted
    assert "error" in unknown


def test_a_message_that_is_too_large(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, configs={"max.message.bytes": "1000"})
    with pytest.raises(ProgramError, match="MESSAGE_TOO_LARGE"):
        CLIENT.produce(cluster.bootstrap, topic, [Message(key=b"k", value=b"x" * 5_000)])
