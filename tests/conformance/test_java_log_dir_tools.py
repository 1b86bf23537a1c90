"""Kafka's tools move replicas between the log directories of a broker, and see them move."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.cluster.replicated import FAST_SESSIONS, running
from tests.cluster.traffic import read_all
from tests.support.java_tools import CONFIGS, LOG_DIRS, REASSIGN_PARTITIONS, java_tool
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = [pytest.mark.etcd, pytest.mark.java, pytest.mark.full]

NODES = (1, 2)


def dirs_of(directory: Path, node: int) -> list[str]:
    return [str(directory / f"disk-{node}-{name}") for name in "ab"]


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    settings = {"controller": FAST_SESSIONS}
    for node in NODES:
        settings[f"node-{node}"] = {"log_dirs": json.dumps(dirs_of(tmp_path, node))}
    shape = Shape(nodes=len(NODES), controllers=1, etcd_members=1, settings=settings)
    with running(tmp_path, shape) as made:
        yield made


class Tools:
    """The tools on one plan."""

    def __init__(self, cluster: ReplicatedCluster, directory: Path) -> None:
        self._bootstrap = ("--bootstrap-server", cluster.bootstrap)
        self._file = directory / "plan.json"

    def plan(self, topic: str, replicas: Sequence[int], log_dirs: Sequence[str]) -> None:
        partition = {
            "topic": topic,
            "partition": 0,
            "replicas": list(replicas),
            "log_dirs": list(log_dirs),
        }
        self._file.write_text(json.dumps({"version": 1, "partitions": [partition]}))

    def reassign(self, *action: str) -> str:
        done = java_tool(
            REASSIGN_PARTITIONS, *self._bootstrap, "--reassignment-json-file", str(self._file),
            *action,
        )  # fmt: skip
        return done.stdout + done.stderr

    def placed(self, topic: str) -> list[Mapping[str, Any]]:
        """What kafka-log-dirs says of a topic's partitions, with node and directory."""
        done = java_tool(LOG_DIRS, *self._bootstrap, "--describe", "--topic-list", topic)
        answer = json.loads(done.stdout.splitlines()[-1])
        return [
            {**one, "node": broker["broker"], "dir": directory["logDir"]}
            for broker in answer["brokers"]
            for directory in broker["logDirs"]
            for one in directory["partitions"]
        ]

    def rate(self, node: int) -> str:
        named = ("--entity-type", "brokers", "--entity-name", str(node), "--describe")
        return java_tool(CONFIGS, *self._bootstrap, *named).stdout


def fill(cluster: ReplicatedCluster, topic: str) -> list[bytes]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    values = [number.to_bytes(4, "big") * 1_000 for number in range(1_000)]
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    return values


@pytest.mark.timeout(400)
def test_reassign_partitions_within_a_broker(disks: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_replicated_topic(disks.bootstrap, "t", partitions=1, replication_factor=1)
    produced = fill(disks, topic)
    tools = Tools(disks, tmp_path)
    (before,) = tools.placed(topic)
    assert (before["isFuture"], before["offsetLag"]) == (False, 0)
    node = before["node"]
    (target,) = set(dirs_of(tmp_path, node)) - {before["dir"]}

    tools.plan(topic, [node], [target])
    done = tools.reassign("--execute", "--replica-alter-log-dirs-throttle", "1000")
    assert f"Successfully started moving log directory to {target} for replica {topic}-0" in done
    assert "replica.alter.log.dirs.io.max.bytes.per.second=1000" in tools.rate(node)
    placed = {one["dir"]: one for one in tools.placed(topic)}
    assert set(placed) == {before["dir"], target}
    assert placed[target]["isFuture"]
    assert placed[target]["offsetLag"] > 0
    assert not placed[before["dir"]]["isFuture"]
    assert "is still in progress" in tools.reassign("--verify")

    # Back to where it is: the move ends. Then without a limit.
    tools.plan(topic, [node], [before["dir"]])
    tools.reassign("--execute", "--additional")
    (stayed,) = tools.placed(topic)
    assert (stayed["dir"], stayed["isFuture"]) == (before["dir"], False)
    tools.reassign("--verify")
    assert "replica.alter.log.dirs.io" not in tools.rate(node)

    tools.plan(topic, [node], [target])
    tools.reassign("--execute")
    wait_until(
        lambda: [one["dir"] for one in tools.placed(topic)] == [target],
        timeout_s=120,
        what="the replica in its new directory",
    )
    assert f"Reassignment of replica {topic}-0-{node} completed successfully" in tools.reassign(
        "--verify"
    )
    assert read_all(disks.bootstrap, topic, 1) == produced


@pytest.mark.timeout(400)
def test_reassign_partitions_to_a_directory_of_another_broker(
    disks: ReplicatedCluster, tmp_path: Path
) -> None:
    """The tool begins the reassignment first; wherever the new replica is by then, it goes there."""
    topic = make_replicated_topic(disks.bootstrap, "t", partitions=1, replication_factor=1)
    produced = fill(disks, topic)
    tools = Tools(disks, tmp_path)
    (before,) = tools.placed(topic)
    (node,) = set(NODES) - {before["node"]}
    for target in dirs_of(tmp_path, node)[::-1]:
        tools.plan(topic, [node], [target])
        tools.reassign("--execute")

        def there(target: str = target) -> bool:
            placed = tools.placed(topic)
            return [(one["node"], one["dir"]) for one in placed] == [(node, target)]

        wait_until(there, timeout_s=120, what=f"the replica in {target}")
        told = tools.reassign("--verify")
        assert f"Reassignment of partition {topic}-0 is completed" in told
        assert f"Reassignment of replica {topic}-0-{node} completed successfully" in told
    assert read_all(disks.bootstrap, topic, 1) == produced
