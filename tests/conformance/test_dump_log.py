"""Kafka's own DumpLogSegments reads, verifies and shows the segments of a running broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conformance.client import CODECS
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.messages import EVERYTHING, make_messages
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster, partition_dir
from tests.support.java_tools import DUMP_LOG_SEGMENTS, java_tool

CLIENT = ConfluentClient()

pytestmark = pytest.mark.java

_BATCH = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) .*"
    r"producerId: (?P<producer>-?\d+) .*partitionLeaderEpoch: (?P<epoch>\d+) .*"
    r"isvalid: (?P<valid>\w+)"
)
_RECORD = re.compile(r"^\| offset: (?P<offset>\d+) .*keySize: (?P<key>-?\d+) valueSize: (-?\d+)")


def _dump(*files: Path, deep: bool = True) -> str:
    options = ["--deep-iteration"] if deep else []
    return java_tool(
        DUMP_LOG_SEGMENTS, *options, "--files", ",".join(str(file) for file in files)
    ).stdout


def _segments(cluster: Cluster, topic: str, suffix: str) -> list[Path]:
    files = sorted(partition_dir(cluster, topic, 0).glob(f"*{suffix}"))
    assert files
    return files


@pytest.fixture(autouse=True)
def _needs_the_files(cluster: Cluster) -> None:
    if cluster.mode == "external":
        pytest.skip("the files of an external cluster are not ours to read")


@pytest.mark.core
def test_every_record_of_every_codec(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    messages = make_messages(30, writes=EVERYTHING)
    for codec in CODECS:
        CLIENT.produce(cluster.bootstrap, topic, messages, partition=0, codec=codec)
    output = _dump(*_segments(cluster, topic, ".log"))
    batches = [found for line in output.splitlines() if (found := _BATCH.search(line))]
    assert all(found["valid"] == "true" for found in batches)
    next_offset = 0
    for found in batches:
        assert int(found["base"]) == next_offset
        next_offset = int(found["last"]) + 1
        assert int(found["count"]) == next_offset - int(found["base"])
    total = len(messages) * len(CODECS)
    assert next_offset == total
    records = [found for line in output.splitlines() if (found := _RECORD.search(line))]
    assert [int(found["offset"]) for found in records] == list(range(total))
    for name in CODECS:
        assert f"compresscodec: {name}" in output
    keys = [-1 if message.key is None else len(message.key) for message in messages]
    assert [int(found["key"]) for found in records] == keys * len(CODECS)


def test_batches_in_another_codec_with_the_time_of_their_append(
    cluster: Cluster, topic: str
) -> None:
    configs = {"compression.type": "lz4", "message.timestamp.type": "LogAppendTime"}
    make_topic(cluster.bootstrap, topic, configs=configs)
    messages = make_messages(30, writes=EVERYTHING)
    for codec in CODECS:
        CLIENT.produce(cluster.bootstrap, topic, messages, partition=0, codec=codec)
    output = _dump(*_segments(cluster, topic, ".log"))
    batches = [line for line in output.splitlines() if _BATCH.search(line)]
    assert all("isvalid: true" in line and "compresscodec: lz4" in line for line in batches)
    records = [found for line in output.splitlines() if (found := _RECORD.search(line))]
    assert [int(found["offset"]) for found in records] == list(range(30 * len(CODECS)))
    assert output.count("LogAppendTime: ") == len(batches) + len(records)


def test_rolled_segments_and_their_indexes(cluster: Cluster, topic: str) -> None:
    configs = {"segment.bytes": str(1 << 20), "index.interval.bytes": "1000"}
    make_topic(cluster.bootstrap, topic, configs=configs)
    settings = {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True}
    producer = Producer({**settings, "batch.size": 10_000, "linger.ms": 2})
    for index in range(6_000):
        producer.produce(topic, value=b"%d" % index * 100, partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0
    logs = _segments(cluster, topic, ".log")
    assert len(logs) > 2, "the topic rolled"
    output = _dump(*logs)
    batches = [found for line in output.splitlines() if (found := _BATCH.search(line))]
    assert all(found["valid"] == "true" for found in batches)
    assert sum(int(found["count"]) for found in batches) == 6_000
    assert {int(found["producer"]) for found in batches} != {-1}, "idempotent batches"
    # The tool checks indexes against their logs and names wrong entries.
    indexes = [*_segments(cluster, topic, ".index"), *_segments(cluster, topic, ".timeindex")]
    shown = _dump(*indexes, deep=False)
    assert shown.count("Dumping") == len(indexes)
    assert re.search(r"offset: \d+ position: \d+", shown), "the offset indexes have entries"
    assert re.search(r"timestamp: \d+ offset: \d+", shown), "the time indexes have entries"
    for complaint in ("Mismatches in", "Out of order", "Indexed offset", "Exception"):
        assert complaint not in shown


def test_checkpoints_and_metadata_of_the_partition(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    CLIENT.produce(cluster.bootstrap, topic, make_messages(3, writes=EVERYTHING), partition=0)
    directory = partition_dir(cluster, topic, 0)
    metadata = (directory / "partition.metadata").read_text().splitlines()
    assert metadata[0] == "version: 0"
    assert metadata[1].startswith("topic_id: ")
    assert (directory / "leader-epoch-checkpoint").read_text().split() == ["0", "1", "0", "0"]
