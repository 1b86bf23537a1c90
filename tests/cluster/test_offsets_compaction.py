"""The group metadata topic is compacted, and no committed offset is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from highwater.embed.clients.kafka_client import KafkaClient
from tests.cluster.runner import Up
from tests.support.process import wait_until
from tests.support.segment_sizes import segment_bytes

OFFSETS = "__consumer_offsets"
GROUP = "readers"
PARTITIONS = 100
ROUNDS = 300
"""Commits of all partitions: 30 000 records, some 3 MB of the log."""
SMALL = 1_500_000
"""Bytes of one replica once it is clean: an active segment, and a record for each partition."""


@pytest.fixture
def up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Up]:
    made = Up(request.param, tmp_path)
    made.process.set_environment("HIGHWATER_PARTITION_LOG_CLEANER_BACKOFF_MS", "200")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def commit(up: Up, rounds: range) -> None:
    consumer = Consumer({"bootstrap.servers": up.bootstrap, "group.id": GROUP})
    try:
        for number in rounds:
            offsets = [TopicPartition("orders", p, number * 1_000 + p) for p in range(PARTITIONS)]
            consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()


def committed(up: Up) -> list[int]:
    """The committed offsets of all partitions; waits while the group is loaded."""
    consumer = Consumer({"bootstrap.servers": up.bootstrap, "group.id": GROUP})
    found: list[TopicPartition] = []

    def answers() -> bool:
        asked = [TopicPartition("orders", p) for p in range(PARTITIONS)]
        try:
            found[:] = consumer.committed(asked, timeout=5)
        except KafkaException:
            return False
        return True

    try:
        wait_until(answers, timeout_s=30, what="the committed offsets")
    finally:
        consumer.close()
    return [partition.offset for partition in found]


def expected(last_round: int) -> list[int]:
    return [last_round * 1_000 + p for p in range(PARTITIONS)]


def make_it_roll_and_clean(up: Up) -> None:
    values = {
        "segment.bytes": str(1 << 20),
        "min.cleanable.dirty.ratio": "0.01",
        "file.delete.delay.ms": "100",
    }
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    admin = AdminClient({"bootstrap.servers": up.bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS, incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(20)


def replicas(up: Up) -> dict[Path, int]:
    """Directory -> bytes of its segments, without empty ones."""
    sizes = {directory: segment_bytes(directory) for directory in up.data_dir.rglob(f"{OFFSETS}-*")}
    return {directory: size for directory, size in sizes.items() if size > 0}


@pytest.mark.parametrize(
    "up", ["embedded", pytest.param("nodes3", marks=pytest.mark.full)], indirect=True
)
@pytest.mark.timeout(180)
def test_offsets_outlive_compaction(up: Up) -> None:
    with KafkaClient(up.bootstrap) as client:
        client.create_topic(
            "orders", partitions=PARTITIONS, replication_factor=up.node_count, configs={}
        )
    commit(up, range(1))
    make_it_roll_and_clean(up)
    commit(up, range(1, ROUNDS))
    assert len(replicas(up)) == up.node_count
    wait_until(
        lambda: all(size < SMALL for size in replicas(up).values()),
        timeout_s=60,
        what="a small log of offsets",
    )
    assert all((directory / ".highwater_gaps").exists() for directory in replicas(up))
    assert committed(up) == expected(ROUNDS - 1)
    assert up.stop() == 0
    for snapshot in up.data_dir.rglob("group-snapshot"):
        snapshot.unlink()  # The compacted log must be enough.
    up.start()
    assert committed(up) == expected(ROUNDS - 1)
    commit(up, range(ROUNDS, ROUNDS + 2))
    assert committed(up) == expected(ROUNDS + 1)
