"""A batch header of a closed segment is damaged, and a reader finds it before the scrubber does."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.model.ids import GROUP_METADATA_TOPIC
from highwater.model.partitioning import coordinator_partition
from highwater.partition.groups.kind import SNAPSHOT_FILE_NAME as SNAPSHOT
from tests.cluster.replicated import FAST_SESSIONS, ISR_S_MAX
from tests.cluster.runner import Up
from tests.support.cluster_view import view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.partition_logs import assert_identical_logs, headers, segments
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

TOPIC = "large"
CONFIGS = {"segment.bytes": str(1 << 20)}
VALUES = [bytes([number]) * 300_000 for number in range(12)]
FIELDS = {"magic": 16, "length": 8}
"""Positions in a header of bytes to damage; for the length the highest byte, without checksum."""
either_field = pytest.mark.parametrize(
    "field", [pytest.param("magic", marks=pytest.mark.full), "length"]
)
TIMEOUT_S = 30.0
FAILOVER_S_MAX = 10.0
SHAPE = Shape(
    controllers=1,
    etcd_members=1,
    settings={"controller": FAST_SESSIONS, "partition": {"log_scrub_bytes_per_s": "0"}},
)


def write(bootstrap: str, values: list[bytes], topic: str = TOPIC) -> None:
    """Writes one batch for each value."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "batch.num.messages": 1})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def read(bootstrap: str, offset: int, topic: str = TOPIC) -> tuple[list[int], int]:
    """Reads up to an error or the end; returns the offsets and the error code."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 200,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if (error := message.error()) is not None:
                return found, error.code()
            assert message.value() == VALUES[message.offset()]
            found.append(message.offset())
    finally:
        consumer.close()
    raise AssertionError(f"neither an error nor the end after {found}")


def damage(segment: Path, batch: int, field: str) -> int:
    """Flips a bit of a batch's header; returns the first offset that is lost."""
    batches = headers(segment.read_bytes())
    position = sum(header.batch_length + 12 for header in batches[:batch])
    with segment.open("r+b") as file:
        file.seek(position + FIELDS[field])
        byte = file.read(1)[0]
        file.seek(position + FIELDS[field])
        file.write(bytes([byte ^ 1]))
    return batches[batch].base_offset


@either_field
@pytest.mark.parametrize("up", ["embedded"], indirect=True)
def test_the_only_copy_goes_on_without_what_is_lost(up: Up, field: str) -> None:
    with KafkaClient(up.bootstrap) as client:
        client.create_topic(TOPIC, partitions=1, replication_factor=1, configs=CONFIGS)
    write(up.bootstrap, VALUES[:11])
    assert up.stop() == 0
    oldest, second = segments(next(up.data_dir.rglob(f"{TOPIC}-0")))[:2]
    first, end = damage(oldest, 1, field), int(second.stem)
    assert 0 < first < end < 11
    up.start()
    for _ in range(2):
        assert read(up.bootstrap, first) == ([], KafkaError.INVALID_MSG)
        assert read(up.bootstrap, 0) == (list(range(first)), KafkaError.INVALID_MSG)
        assert read(up.bootstrap, end) == (list(range(end, 11)), KafkaError._PARTITION_EOF)
        assert up.stop() == 0
        up.start()
    write(up.bootstrap, VALUES[11:])
    assert read(up.bootstrap, end) == (list(range(end, 12)), KafkaError._PARTITION_EOF)
    assert "log_damaged" in up.process.log_path.read_text()


@either_field
@pytest.mark.parametrize("up", ["embedded"], indirect=True)
def test_damage_in_the_active_segment_does_not_stop_writers(up: Up, field: str) -> None:
    with KafkaClient(up.bootstrap) as client:
        client.create_topic(TOPIC, partitions=1, replication_factor=1, configs=CONFIGS)
    write(up.bootstrap, VALUES[:3])
    assert up.stop() == 0
    (segment,) = segments(next(up.data_dir.rglob(f"{TOPIC}-0")))
    damage(segment, 1, field)
    up.start()
    assert read(up.bootstrap, 1) == ([], KafkaError.INVALID_MSG)
    write(up.bootstrap, VALUES[3:5])
    for _ in range(2):
        assert read(up.bootstrap, 0) == ([0], KafkaError.INVALID_MSG)
        assert read(up.bootstrap, 3) == ([3, 4], KafkaError._PARTITION_EOF)
        up.kill()
        up.start()


@pytest.mark.etcd
@either_field
def test_what_others_have_is_fetched_again(whole: ReplicatedCluster, field: str) -> None:
    topic = make_replicated_topic(whole.bootstrap, TOPIC, partitions=1, configs=CONFIGS)
    write(whole.bootstrap, VALUES, topic)
    first_leader = view(whole.bootstrap, topic)[0].replicas[0]
    assert_identical_logs(whole, topic, 0)
    whole.terminate_node(first_leader)
    first = damage(segments(whole.data_dir(first_leader) / f"{topic}-0")[0], 1, field)
    whole.start_node(first_leader)
    wait_until(whole.is_whole, timeout_s=ISR_S_MAX, what="full ISRs")
    admin = AdminClient({"bootstrap.servers": whole.bootstrap})
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(TIMEOUT_S)
    assert view(whole.bootstrap, topic)[0].leader == first_leader
    everything = list(range(first, len(VALUES)))
    assert read(whole.bootstrap, first, topic) == (everything, KafkaError._PARTITION_EOF)
    told = [line for line in whole.complaints() if "log_damaged" in line and topic in line]
    assert len(told) == 1
    wait_until(whole.is_whole, timeout_s=ISR_S_MAX, what="full ISRs again")
    assert_identical_logs(whole, topic, 0)


@pytest.mark.etcd
def test_groups_move_on_when_their_coordinators_log_is_damaged(whole: ReplicatedCluster) -> None:
    """Recovery at start does not read this part of the log: only loading the groups does."""
    topic = make_replicated_topic(whole.bootstrap, "orders", partitions=1)
    consumer = Consumer(
        {
            "bootstrap.servers": whole.bootstrap,
            "group.id": "readers",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
        }
    )

    def committed() -> int:
        (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=FAILOVER_S_MAX)
        assert place.error is None
        return place.offset

    try:
        for offset in range(12):
            place = TopicPartition(topic, 0, offset, metadata="m" * 3000)
            consumer.commit(offsets=[place], asynchronous=False)
        partitions = view(whole.bootstrap, GROUP_METADATA_TOPIC)
        number = coordinator_partition("readers", len(partitions))
        preferred = partitions[number].replicas[0]
        assert_identical_logs(whole, GROUP_METADATA_TOPIC, number)
        whole.terminate_node(preferred)
        directory = whole.data_dir(preferred) / f"{GROUP_METADATA_TOPIC}-{number}"
        (directory / SNAPSHOT).unlink(missing_ok=True)
        damage(segments(directory)[0], 1, "magic")
        whole.start_node(preferred)
        wait_until(whole.is_whole, timeout_s=ISR_S_MAX, what="full ISRs")
        admin = AdminClient({"bootstrap.servers": whole.bootstrap})
        groups = TopicPartition(GROUP_METADATA_TOPIC, number)
        admin.elect_leaders(ElectionType.PREFERRED, [groups]).result(TIMEOUT_S)
        assert committed() == 11
        complaints = whole.process(f"node-{preferred}").lines_with("log_damaged")
        ours = [line for line in complaints if GROUP_METADATA_TOPIC in line]
        assert len(ours) == 1, "it was asked"
        wait_until(whole.is_whole, timeout_s=ISR_S_MAX, what="full ISRs again")
        assert_identical_logs(whole, GROUP_METADATA_TOPIC, number)
        assert committed() == 11
    finally:
        consumer.close()
