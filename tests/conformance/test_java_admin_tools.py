"""More of Kafka 4.3's command-line tools: elections, versions, latency, the verifiable clients."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from highwater.gateway.handling.apis import APIS
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.messages import Message
from tests.conformance.topics import end_offsets, make_topic
from tests.support.cluster import Cluster
from tests.support.java_tools import (
    BROKER_API_VERSIONS,
    CONSUMER_GROUPS,
    END_TO_END_LATENCY,
    LEADER_ELECTION,
    TOPICS,
    TRANSACTIONS,
    VERIFIABLE_PRODUCER,
    java_tool,
)

REFERENCE = ConfluentClient()

pytestmark = [pytest.mark.java, pytest.mark.full]


def told(tool: str, cluster: Cluster, *arguments: str, check: bool = True) -> str:
    done = java_tool(tool, "--bootstrap-server", cluster.bootstrap, *arguments, check=check)
    return done.stdout + done.stderr


def filled(cluster: Cluster, topic: str, count: int = 5) -> None:
    make_topic(cluster.bootstrap, topic)
    messages = [Message(key=None, value=b"x")] * count
    REFERENCE.produce(cluster.bootstrap, topic, messages, partition=0)


def test_broker_api_versions_command(cluster: Cluster, tmp_path: Path) -> None:
    """Each broker tells its versions; the tool names what it could use of each API."""
    patient = tmp_path / "client.properties"
    patient.write_text("request.timeout.ms=60000\n")  # Of itself it gives up after 5 s.
    lines = told(BROKER_API_VERSIONS, cluster, "--command-config", str(patient)).splitlines()
    brokers = [line for line in lines if re.search(r"\(id: \d+ rack: .*\) -> \(", line)]
    assert len(brokers) == len(cluster.nodes)
    versions = {
        int(found[1]): (int(found[2]), int(found[3] or found[2]))
        for line in lines
        if (found := re.search(r"\((\d+)\): (\d+)(?: to (\d+))?(?: \[|,|$)", line))
    }
    assert {1, 3, 18} <= versions.keys(), "Fetch, Metadata and ApiVersions"
    if cluster.mode != "kafka":
        served = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
        assert versions == {key: served[key] for key in versions}


def test_leader_election_command(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    named = ("--topic", topic, "--partition", "0")
    for kind in ("preferred", "unclean"):
        done = told(LEADER_ELECTION, cluster, "--election-type", kind, *named)
        assert f"Valid replica already elected for partitions {topic}-0" in done
    unknown = ("--topic", f"{topic}-not", "--partition", "0")
    done = told(LEADER_ELECTION, cluster, "--election-type", "preferred", *unknown, check=False)
    assert "UnknownTopicOrPartition" in done


def test_end_to_end_latency(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    done = told(
        END_TO_END_LATENCY,
        cluster,
        *("--topic", topic, "--num-records", "50", "--producer-acks", "all"),
        *("--record-size", "100"),
    )
    found = re.search(r"Percentiles: 50th = (\d+), 99th = (\d+), 99\.9th = (\d+)", done)
    assert found is not None, done
    assert 0 <= int(found[1]) <= int(found[2]) <= int(found[3])
    assert end_offsets(cluster.bootstrap, topic, 1) == {0: 50}


def test_verifiable_producer(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    done = told(
        VERIFIABLE_PRODUCER,
        cluster,
        *("--topic", topic, "--max-messages", "30", "--throughput", "-1", "--acks", "-1"),
    )
    events = [json.loads(line) for line in done.splitlines() if line.startswith("{")]
    sent = [one["offset"] for one in events if one["name"] == "producer_send_success"]
    assert sorted(sent) == list(range(30))
    (summary,) = [one for one in events if one["name"] == "tool_data"]
    assert (summary["sent"], summary["acked"]) == (30, 30)


def test_offsets_of_a_group_are_reset_exported_and_deleted(
    cluster: Cluster, topic: str, group: str, tmp_path: Path
) -> None:
    filled(cluster, topic)

    def reset(*how: str) -> str:
        target = ("--group", group, "--topic", topic, "--execute")
        return told(CONSUMER_GROUPS, cluster, "--reset-offsets", *target, *how)

    for how, offset in (
        (("--to-latest",), 5),
        (("--shift-by", "-2"), 3),
        (("--to-earliest",), 0),
        (("--by-duration", "PT0S"), 5),
        (("--to-datetime", "2020-01-01T00:00:00.000"), 0),
        (("--to-offset", "99"), 5),
        (("--to-current",), 5),
    ):
        assert re.search(rf"{topic}\s+0\s+{offset}", reset(*how)), how
    plan = tmp_path / "offsets.csv"
    plan.write_text(f"{topic},0,4\n")
    assert re.search(rf"{topic}\s+0\s+4", reset("--from-file", str(plan)))
    named = ("--group", group, "--topic", topic)
    deleted = told(CONSUMER_GROUPS, cluster, "--delete-offsets", *named)
    assert re.search(rf"{topic}\s+0\s+Successful", deleted)
    described = told(CONSUMER_GROUPS, cluster, "--describe", "--group", group, check=False)
    assert not re.search(rf"{topic}\s+0\s+4", described)


def test_find_hanging_transactions(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    done = told(TRANSACTIONS, cluster, "find-hanging", "--topic", topic)
    assert re.search(r"Topic\s+Partition\s+ProducerId", done), "its table"
    assert topic not in done.split("Partition", 1)[1], "which is empty"


def test_topics_that_need_attention(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    for what in ("under-replicated", "under-min-isr", "unavailable", "at-min-isr"):
        listed = told(TOPICS, cluster, "--describe", "--topic", topic, f"--{what}-partitions")
        assert (f"Topic: {topic}" in listed) == (what == "at-min-isr"), what
    with_configs = ("--describe", "--topic", topic, "--topics-with-overrides")
    assert f"Topic: {topic}" not in told(TOPICS, cluster, *with_configs)
