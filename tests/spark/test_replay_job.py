"""Replay into a real broker: the file's lines with their own times; a signal ends it in order."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter, defaultdict

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from highwater.spark.access_events import parse_line
from highwater.spark.jobs.replay import SAMPLE
from tests.conformance.topics import end_offsets, unique_name
from tests.support import stream_jobs
from tests.support.cluster import Cluster

pytestmark = pytest.mark.spark


def test_the_sample_has_its_own_times_and_clients(cluster: Cluster, sample_topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition(sample_topic, each, OFFSET_BEGINNING) for each in range(3)])
    found: Counter[tuple[str, int, str]] = Counter()
    by_client: dict[str, list[int]] = defaultdict(list)
    partitions: dict[str, set[int]] = defaultdict(set)
    deadline = time.monotonic() + stream_jobs.READ_TIMEOUT_S
    while found.total() < 10_000 and time.monotonic() < deadline:
        for message in consumer.consume(2000, timeout=1):
            client, (_, time_ms) = message.key().decode(), message.timestamp()
            found[client, time_ms, message.value().decode()] += 1
            by_client[client].append(time_ms)
            partitions[client].add(message.partition())
    consumer.close()
    wanted: Counter[tuple[str, int, str]] = Counter()
    for text in SAMPLE.read_text(encoding="utf-8").splitlines():
        event = parse_line(text)
        assert event is not None
        wanted[event.client, int(event.time.timestamp() * 1000), text] += 1
    assert found == wanted
    assert all(times == sorted(times) for times in by_client.values())
    assert {len(each) for each in partitions.values()} == {1}


def test_a_signal_ends_it_and_what_it_says_is_there(cluster: Cluster) -> None:
    topic = unique_name("stopped")
    # An hour of the log in a second: it would take more than a minute.
    arguments = stream_jobs.command(
        "replay", "--bootstrap", cluster.bootstrap, "--topic", topic, "--speed", "x3600",
        "--partitions", "2", "--json",
    )  # fmt: skip
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["elapsed_s"] >= 1
        process.send_signal(signal.SIGTERM)
        lines = process.stdout.read().splitlines()
        assert process.wait(60) == 0
    last = json.loads(lines[-1])
    assert 0 < last["records"] < 10_000
    assert sum(end_offsets(cluster.bootstrap, topic, 2).values()) == last["records"]
