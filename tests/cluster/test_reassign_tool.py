"""Moves partitions by Kafka's own kafka-reassign-partitions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cluster.replicated import FAST_SESSIONS
from tests.cluster.traffic import read_all
from tests.support.cluster_view import is_whole, view, wait_for_view
from tests.support.java_tools import CONFIGS, REASSIGN_PARTITIONS, java_tool
from tests.support.kafka_admin import make_replicated_topic
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = [pytest.mark.etcd, pytest.mark.java, pytest.mark.full]

SHAPE = Shape(nodes=4, controllers=1, etcd_members=1, settings={"controller": FAST_SESSIONS})
SLOW = 1_000
"""Bytes per second, so low that a move does not complete during the test."""


class Tool:
    """The tool on one plan, kept in a file as the tool wants it."""

    def __init__(self, cluster: ReplicatedCluster, directory: Path) -> None:
        self._bootstrap = ("--bootstrap-server", cluster.bootstrap)
        self._file = directory / "plan.json"

    def plan(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        partitions = [
            {"topic": topic, "partition": number, "replicas": list(nodes)}
            for number, nodes in replicas.items()
        ]
        self._file.write_text(json.dumps({"version": 1, "partitions": partitions}))

    def __call__(self, *action: str) -> str:
        done = java_tool(
            REASSIGN_PARTITIONS, *self._bootstrap, "--reassignment-json-file", str(self._file),
            *action,
        )  # fmt: skip
        return done.stdout + done.stderr

    def list(self) -> str:
        return java_tool(REASSIGN_PARTITIONS, *self._bootstrap, "--list").stdout


def fill(cluster: ReplicatedCluster, topic: str) -> list[bytes]:
    """Writes more than a throttle lets pass at first; returns the values, in order."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    values = [number.to_bytes(4, "big") * 1_000 for number in range(2_000)]
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    return values


@pytest.mark.timeout(300)
def test_execute_list_cancel_and_verify(replicated: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_replicated_topic(replicated.bootstrap, "t", partitions=2)
    produced = fill(replicated, topic)
    before = view(replicated.bootstrap, topic)
    (spare,) = set(replicated.node_ids) - set(before[0].replicas)
    target = (spare, *before[0].replicas[1:])
    tool = Tool(replicated, tmp_path)
    tool.plan(topic, {0: target})

    told = tool("--execute", "--throttle", str(SLOW))
    assert f"Successfully started partition reassignment for {topic}-0" in told
    listed = tool.list()
    assert f"{topic}-0:" in listed
    assert f"adding: {spare}" in listed
    assert f"removing: {before[0].replicas[0]}" in listed
    assert f"{topic}-1" not in listed
    named = ("--bootstrap-server", replicated.bootstrap, "--entity-type", "brokers", "--describe")
    rates = java_tool(CONFIGS, *named, "--entity-name", str(spare)).stdout
    assert f"follower.replication.throttled.rate={SLOW}" in rates
    assert "is still in progress" in tool("--verify")

    assert f"Successfully cancelled partition reassignment for: {topic}-0" in tool("--cancel")
    back = view(replicated.bootstrap, topic)[0]
    assert set(back.replicas) == set(before[0].replicas)
    assert "throttled.rate=" not in java_tool(CONFIGS, *named, "--entity-name", str(spare)).stdout

    tool("--execute")
    wait_for_view(
        replicated.bootstrap,
        topic,
        lambda parts: parts[0].replicas == target and is_whole(parts),
        timeout_s=60,
        what=f"replicas {target}",
    )
    assert f"Reassignment of partition {topic}-0 is completed" in tool("--verify")
    assert "No partition reassignments found" in tool.list()
    assert read_all(replicated.bootstrap, topic, 2) == produced
