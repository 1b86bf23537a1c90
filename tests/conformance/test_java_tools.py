"""Kafka 4.3's own command-line tools: a current Java client, and the commands of operators."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.conformance import scenarios
from tests.conformance.client import ACKS, CLIENT_TIMEOUT_S, CODECS
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.java_tools_client import JavaToolsClient
from tests.conformance.messages import Message
from tests.conformance.topics import end_offsets, make_topic, unique_name
from tests.support.cluster import Cluster, partition_dir
from tests.support.java_tools import (
    CLIENT_METRICS,
    CLUSTER,
    CONFIGS,
    CONSUMER_GROUPS,
    CONSUMER_PERFORMANCE,
    DELETE_RECORDS,
    FEATURES,
    GET_OFFSETS,
    LOG_DIRS,
    METADATA_QUORUM,
    PRODUCER_PERFORMANCE,
    TOPICS,
    TRANSACTIONS,
    java_tool,
)
from tests.support.process import wait_until

CLIENT = JavaToolsClient()
REFERENCE = ConfluentClient()

pytestmark = pytest.mark.java


@pytest.mark.core(codec="zstd")
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_console_producer_and_consumer(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


@pytest.mark.full
@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_with_every_acks(cluster: Cluster, topic: str, codec: str, acks: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec, acks=acks)


def test_reset_to_a_datetime_and_read_on(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=REFERENCE)


def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=REFERENCE)


@pytest.mark.full
def test_group_of_two_of_the_consumer_protocol(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(JavaToolsClient("consumer"), cluster, topic, producer=REFERENCE)


def _topics(cluster: Cluster, *arguments: str, check: bool = True) -> str:
    done = java_tool(TOPICS, "--bootstrap-server", cluster.bootstrap, *arguments, check=check)
    return done.stdout + done.stderr


def _groups(cluster: Cluster, *arguments: str, check: bool = True) -> str:
    done = java_tool(
        CONSUMER_GROUPS, "--bootstrap-server", cluster.bootstrap, *arguments, check=check
    )
    return done.stdout + done.stderr


def test_topic_command(cluster: Cluster, topic: str) -> None:
    named = ("--topic", topic)
    _topics(cluster, "--create", *named, "--partitions", "2", "--config", "retention.ms=1000000")
    assert topic in _topics(cluster, "--list").split()
    described = _topics(cluster, "--describe", *named)
    assert "PartitionCount: 2" in described
    assert "retention.ms=1000000" in described
    assert re.search(rf"Topic: {topic}\s+Partition: 1\s+Leader: \d+\s+Replicas: \d+", described)
    _topics(cluster, "--delete", *named)
    assert topic not in _topics(cluster, "--list").split()


@pytest.mark.full
def test_topic_command_errors(cluster: Cluster, topic: str) -> None:
    named = ("--topic", topic)
    _topics(cluster, "--create", *named, "--partitions", "2")
    assert "already exists" in _topics(cluster, "--create", *named, check=False)
    _topics(cluster, "--alter", *named, "--partitions", "4")
    assert "PartitionCount: 4" in _topics(cluster, "--describe", *named)
    fewer = _topics(cluster, "--alter", *named, "--partitions", "1", check=False)
    assert "InvalidPartitionsException" in fewer
    unknown = _topics(cluster, "--describe", "--topic", f"no-{topic}", check=False)
    assert "does not exist" in unknown


def _log_dirs(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    """The tool's report on all brokers: its last line is JSON."""
    done = java_tool(LOG_DIRS, "--bootstrap-server", cluster.bootstrap, "--describe", *arguments)
    answer = json.loads(done.stdout.splitlines()[-1])
    brokers = sorted(answer["brokers"], key=lambda broker: int(broker["broker"]))
    assert [broker["broker"] for broker in brokers] == [node.node_id for node in cluster.nodes]
    return [directory for broker in brokers for directory in broker["logDirs"]]


@pytest.mark.core
def test_log_dirs_command(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, partitions=3)
    messages = [Message(key=None, value=b"x" * 1000)] * 5
    REFERENCE.produce(cluster.bootstrap, topic, messages, partition=1)
    directories = _log_dirs(cluster, "--topic-list", topic)
    assert {directory["error"] for directory in directories} == {None}
    partitions = [one for directory in directories for one in directory["partitions"]]
    sizes = {one["partition"]: one["size"] for one in partitions}
    assert sizes == {
        f"{topic}-{index}": sum(
            path.stat().st_size for path in partition_dir(cluster, topic, index).glob("*.log")
        )
        for index in range(3)
    }
    assert sizes[f"{topic}-1"] > 5_000
    assert {(one["offsetLag"], one["isFuture"]) for one in partitions} == {(0, False)}


@pytest.mark.full
def test_configs_command(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    broker = ("--bootstrap-server", cluster.bootstrap)
    named = (*broker, "--entity-type", "topics", "--entity-name", topic)
    java_tool(CONFIGS, *named, "--alter", "--add-config", "retention.ms=7200000")
    assert "retention.ms=7200000" in java_tool(CONFIGS, *named, "--describe").stdout
    java_tool(CONFIGS, *named, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in java_tool(CONFIGS, *named, "--describe").stdout
    everything = java_tool(CONFIGS, *named, "--describe", "--all").stdout
    assert "segment.bytes=1073741824" in everything


@pytest.mark.full
def test_configs_command_for_brokers(cluster: Cluster) -> None:
    """Changes a running broker as operators do: one broker, or all."""
    name, node = "log.cleaner.backoff.ms", str(cluster.nodes[0].node_id)
    broker = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "brokers")
    of_all, of_one = (*broker, "--entity-default"), (*broker, "--entity-name", node)
    java_tool(CONFIGS, *of_all, "--alter", "--add-config", f"{name}=5000")
    try:
        java_tool(CONFIGS, *of_one, "--alter", "--add-config", f"{name}=6000")
        assert f"{name}=5000" in java_tool(CONFIGS, *of_all, "--describe").stdout
        told = java_tool(CONFIGS, *of_one, "--describe").stdout
        order = (
            f"DYNAMIC_BROKER_CONFIG:{name}=6000, DYNAMIC_DEFAULT_BROKER_CONFIG:{name}=5000, "
            f"DEFAULT_CONFIG:{name}=15000"
        )
        assert order in told
    finally:
        java_tool(CONFIGS, *of_one, "--alter", "--delete-config", name, check=False)
        java_tool(CONFIGS, *of_all, "--alter", "--delete-config", name)
    assert name not in java_tool(CONFIGS, *of_one, "--describe").stdout
    refused = java_tool(
        CONFIGS, *of_one, "--alter", "--add-config", "group.max.size=5", check=False
    )
    assert "Cannot update these configs dynamically" in refused.stdout + refused.stderr


@pytest.mark.full
def test_configs_command_for_broker_loggers(cluster: Cluster) -> None:
    node = str(cluster.nodes[0].node_id)
    at = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "broker-loggers")
    named = (*at, "--entity-name", node)
    told = java_tool(CONFIGS, *named, "--describe").stdout
    names = re.findall(r"^\s+(\S+)=INFO sensitive=false", told, re.MULTILINE)
    assert "root" in names
    service = next(name for name in names if name != "root")
    java_tool(CONFIGS, *named, "--alter", "--add-config", f"{service}=ERROR")
    try:
        assert f"{service}=ERROR" in java_tool(CONFIGS, *named, "--describe").stdout
        unknown = java_tool(
            CONFIGS, *named, "--alter", "--add-config", "no.such.logger=INFO", check=False
        )
        assert "no.such.logger" in unknown.stdout + unknown.stderr
    finally:
        java_tool(CONFIGS, *named, "--alter", "--delete-config", service)
    assert f"{service}=INFO" in java_tool(CONFIGS, *named, "--describe").stdout


@pytest.mark.full
def test_configs_command_for_client_metrics(cluster: Cluster) -> None:
    name = unique_name("sub")
    kind = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "client-metrics")
    named = (*kind, "--entity-name", name)
    java_tool(CONFIGS, *named, "--alter", "--add-config", "interval.ms=5000,metrics=[a.,b.]")
    try:
        told = java_tool(CONFIGS, *named, "--describe").stdout
        assert "interval.ms=5000" in told
        assert "metrics=a.,b." in told
        assert name in java_tool(CONFIGS, *kind, "--describe").stdout
        wrong = ("--add-config", "interval.ms=50")
        refused = java_tool(CONFIGS, *named, "--alter", *wrong, check=False)
        assert "interval must be between 100 and 3600000" in refused.stdout + refused.stderr
    finally:
        java_tool(CONFIGS, *named, "--alter", "--delete-config", "interval.ms,metrics")
    assert name not in java_tool(CONFIGS, *kind, "--describe").stdout


@pytest.mark.full
def test_configs_command_for_groups(cluster: Cluster) -> None:
    group = unique_name("group")
    kind = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "groups")
    named = (*kind, "--entity-name", group)
    timeouts = "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000"
    java_tool(CONFIGS, *named, "--alter", "--add-config", timeouts)
    try:
        told = java_tool(CONFIGS, *named, "--describe").stdout
        assert "consumer.session.timeout.ms=50000" in told
        assert "consumer.heartbeat.interval.ms=6000" in told
        assert "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000" in told
        assert group in java_tool(CONFIGS, *kind, "--describe").stdout
        wrong = ("--add-config", "consumer.session.timeout.ms=5000")
        refused = java_tool(CONFIGS, *named, "--alter", *wrong, check=False)
        why = "must be greater than or equal to group.consumer.min.session.timeout.ms"
        assert why in refused.stdout + refused.stderr
    finally:
        names = "consumer.session.timeout.ms,consumer.heartbeat.interval.ms"
        java_tool(CONFIGS, *named, "--alter", "--delete-config", names)
    assert "50000" not in java_tool(CONFIGS, *named, "--describe").stdout


@pytest.mark.full
def test_client_metrics_command(cluster: Cluster) -> None:
    name = unique_name("sub")
    at = ("--bootstrap-server", cluster.bootstrap)
    named = (*at, "--name", name)
    wanted = ("--metrics", "org.apache.kafka.", "--match", "client_id=app-.*")
    altered = java_tool(CLIENT_METRICS, *named, "--alter", "--interval", "1000", *wanted)
    assert f"Altered client metrics config for {name}" in altered.stdout
    assert name in java_tool(CLIENT_METRICS, *at, "--list").stdout.split()
    described = java_tool(CLIENT_METRICS, *named, "--describe").stdout
    for line in ("interval.ms=1000", "match=client_id=app-.*", "metrics=org.apache.kafka."):
        assert line in described
    assert name in java_tool(CLIENT_METRICS, *at, "--describe").stdout
    java_tool(CLIENT_METRICS, *named, "--delete")
    assert name not in java_tool(CLIENT_METRICS, *at, "--list").stdout.split()


def test_group_command(cluster: Cluster, topic: str, group: str) -> None:
    make_topic(cluster.bootstrap, topic)
    messages = [Message(key=None, value=b"x")] * 5
    REFERENCE.produce(cluster.bootstrap, topic, messages, partition=0)
    named = ("--group", group)
    target = (*named, "--topic", topic, "--execute")
    moved = _groups(cluster, "--reset-offsets", *target, "--to-offset", "2")
    assert re.search(rf"{group}\s+{topic}\s+0\s+2", moved)
    described = _groups(cluster, "--describe", *named)
    assert re.search(rf"{group}\s+{topic}\s+0\s+2\s+5\s+3", described), "offset, end and lag"
    assert group in _groups(cluster, "--list").split()
    _groups(cluster, "--delete", *named)
    assert group not in _groups(cluster, "--list").split()


@pytest.mark.full
def test_group_command_errors(cluster: Cluster, topic: str, group: str) -> None:
    make_topic(cluster.bootstrap, topic)
    named = ("--group", group)
    unknown = _groups(cluster, "--describe", *named, check=False)
    # DescribeGroups 6 has an error for it; older versions report the group as dead.
    assert "does not exist" in unknown or "GroupIdNotFoundException" in unknown
    member = REFERENCE.join(cluster.bootstrap, group, topic)
    try:
        wait_until(
            lambda: bool(member.assigned()), timeout_s=CLIENT_TIMEOUT_S, what="an assignment"
        )
        state = _groups(cluster, "--describe", *named, "--state")
        assert "Stable" in state
        members = _groups(cluster, "--describe", *named, "--members", "--verbose")
        assert f"{topic}:0" in members or f"{topic}(0)" in members
        assert "GroupNotEmptyException" in _groups(cluster, "--delete", *named, check=False)
        reset = _groups(
            cluster,
            *("--reset-offsets", *named, "--topic", topic, "--to-earliest", "--execute"),
            check=False,
        )
        assert "inactive" in reset
    finally:
        member.close()


@pytest.mark.core
def test_delete_records_command(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    make_topic(cluster.bootstrap, topic)
    REFERENCE.produce(cluster.bootstrap, topic, [Message(key=None, value=b"x")] * 5, partition=0)
    asked = tmp_path / "offsets.json"
    for offset, said in (
        (3, "low_watermark: 3"),
        (-1, "low_watermark: 5"),
        (9, "OffsetOutOfRange"),
    ):
        one = {"topic": topic, "partition": 0, "offset": offset}
        asked.write_text(json.dumps({"version": 1, "partitions": [one]}))
        done = java_tool(
            DELETE_RECORDS,
            *("--bootstrap-server", cluster.bootstrap, "--offset-json-file", str(asked)),
            check=False,
        )
        assert said in done.stdout + done.stderr


@pytest.mark.full
def test_offset_shell(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    REFERENCE.produce(cluster.bootstrap, topic, [Message(key=None, value=b"x")] * 5, partition=0)
    for time, offset in (("earliest", 0), ("latest", 5), ("max-timestamp", 0)):
        output = java_tool(
            GET_OFFSETS,
            *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--time", time),
        ).stdout
        found = int(output.strip().rpartition(":")[2])
        assert (found == offset) if time != "max-timestamp" else (0 <= found < 5)


def test_performance_tools(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, partitions=3)
    count = "20000"
    produced = java_tool(
        PRODUCER_PERFORMANCE,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic),
        *("--num-records", count, "--record-size", "200", "--throughput", "-1"),
        *("--command-property", "compression.type=lz4"),
    ).stdout
    assert f"{count} records sent" in produced
    assert sum(end_offsets(cluster.bootstrap, topic, 3).values()) == int(count)
    consumed = java_tool(
        CONSUMER_PERFORMANCE,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--num-records", count),
        *("--group", unique_name("perf")),
    ).stdout
    header, values = [line.split(", ") for line in consumed.strip().splitlines()[-2:]]
    numbers = dict(zip(header, values, strict=True))
    assert int(numbers["data.consumed.in.nMsg"]) >= int(count)


@pytest.mark.full
def test_groups_by_type(cluster: Cluster, topic: str, group: str) -> None:
    """ListGroups 5: the tool lists the types of groups, and those of one type."""
    make_topic(cluster.bootstrap, topic)
    member = REFERENCE.join(cluster.bootstrap, group, topic)
    try:
        wait_until(
            lambda: bool(member.assigned()), timeout_s=CLIENT_TIMEOUT_S, what="an assignment"
        )
        listed = _groups(cluster, "--list", "--type", "classic")
        assert re.search(rf"{group}\s+Classic", listed)
        assert group not in _groups(cluster, "--list", "--type", "consumer")
    finally:
        member.close()


def test_transactions_command_describes_producers(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for _ in range(3):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(CLIENT_TIMEOUT_S) == 0
    described = java_tool(
        TRANSACTIONS,
        *("--bootstrap-server", cluster.bootstrap, "describe-producers"),
        *("--topic", topic, "--partition", "0"),
    ).stdout
    header, values = (line.split() for line in described.strip().splitlines()[-2:])
    assert header[:3] == ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch"]
    assert values[1:4] == ["0", "-1", "2"]
    assert values[-1] == "None"


def test_features_command(cluster: Cluster) -> None:
    described = java_tool(FEATURES, "--bootstrap-server", cluster.bootstrap, "describe").stdout
    version = re.search(r"Feature: metadata.version\s.*FinalizedVersionLevel: (\S+)", described)
    assert version is not None, described
    if cluster.mode != "kafka":
        assert version[1] == "4.0-IV3"
        assert re.search(
            r"Feature: transaction.version\s.*FinalizedVersionLevel: 2\s+Epoch: 0", described
        )
    refused = java_tool(
        FEATURES,
        *("--bootstrap-server", cluster.bootstrap, "upgrade", "--feature", "group.version=9"),
        check=False,
    )
    assert refused.returncode == 1
    assert "Invalid update version 9 for feature group.version" in refused.stdout + refused.stderr


def test_cluster_command_does_not_unregister_a_live_broker(cluster: Cluster) -> None:
    """Apache Kafka forgets it until it registers again."""
    if cluster.mode == "kafka":
        pytest.skip("the cluster of the other tests would lose its broker")
    at = ("--bootstrap-server", cluster.bootstrap)
    live = java_tool(CLUSTER, "unregister", *at, "--id", str(cluster.nodes[0].node_id), check=False)
    assert "is alive; stop it first" in live.stdout + live.stderr
    unknown = java_tool(CLUSTER, "unregister", *at, "--id", "4711", check=False)
    assert "BrokerIdNotRegisteredException" in unknown.stdout + unknown.stderr


def test_metadata_quorum_command(cluster: Cluster) -> None:
    describe = ("--bootstrap-server", cluster.bootstrap, "describe")
    told = java_tool(METADATA_QUORUM, *describe, "--status").stdout
    status = dict(line.split(":", 1) for line in told.splitlines() if ":" in line)
    voters, observers = (json.loads(status[f"Current{who}"]) for who in ("Voters", "Observers"))
    leader = int(status["LeaderId"])
    assert leader in [one["id"] for one in voters]
    assert {one["id"] for one in voters + observers} >= {node.node_id for node in cluster.nodes}
    assert int(status["LeaderEpoch"]) >= 0
    assert int(status["HighWatermark"]) > 0
    assert int(status["MaxFollowerLag"]) == 0
    if cluster.mode in ("nodes3", "gateways2", "combined3"):
        (endpoint,) = voters[0]["endpoints"]
        assert endpoint.startswith("CONTROLLER://")

    told = java_tool(METADATA_QUORUM, *describe, "--replication", "--human-readable").stdout
    header, first, *others = (
        [cell.strip() for cell in line.strip().split("\t")] for line in told.splitlines()
    )
    assert header[0] == "NodeId"
    assert header[2:4] == ["LogEndOffset", "Lag"]
    assert (first[0], first[3], first[-1]) == (str(leader), "0", "Leader")
    assert re.fullmatch(r"\d+ ms ago", first[4])
    assert {row[-1] for row in others} <= {"Follower", "Observer"}
