"""A snapshot of groups belongs to one log: it is deleted with it, and ignored for another log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition
from crc32c import crc32c

from highwater.embed.clients.kafka_client import KafkaClient
from tests.cluster.runner import Up
from tests.support.process import wait_until

pytestmark = pytest.mark.parametrize("up", ["embedded"], indirect=True)

_GROUP = "readers"


def _consumer(up: Up) -> Consumer:
    return Consumer({"bootstrap.servers": up.bootstrap, "group.id": _GROUP})


def _commit(up: Up, offset: int) -> None:
    consumer = _consumer(up)
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def _committed(up: Up) -> int:
    consumer = _consumer(up)
    found: list[int] = []

    def answers() -> bool:
        try:
            (partition,) = consumer.committed([TopicPartition("orders", 0)], timeout=5)
        except KafkaException:
            return False  # The group may still be loading.
        found.append(partition.offset)
        return True

    try:
        wait_until(answers, timeout_s=30, what="the committed offset")
    finally:
        consumer.close()
    return found[-1]


def _snapshot(up: Up) -> Path:
    """The only snapshot after a clean stop."""
    (found,) = up.data_dir.rglob("group-snapshot")
    assert found.parent.name.startswith("__consumer_offsets-")
    assert (found.parent / "00000000000000000000.log").stat().st_size > 0
    return found


def _start_with_topic(up: Up) -> None:
    with KafkaClient(up.bootstrap) as client:
        client.create_topic("orders", partitions=1, replication_factor=1, configs={})
    _commit(up, 5)


def test_data_of_groups_that_was_removed_starts_anew(up: Up):
    _start_with_topic(up)
    assert up.stop() == 0
    directory = _snapshot(up).parent
    for path in directory.parent.glob("__consumer_offsets-*"):
        shutil.rmtree(path)
    up.start()
    assert _committed(up) == OFFSET_INVALID
    _commit(up, 7)
    assert up.stop() == 0
    assert _snapshot(up).parent == directory
    up.start()
    assert _committed(up) == 7


def test_a_snapshot_of_a_topic_that_was_deleted_is_ignored(up: Up):
    _start_with_topic(up)
    assert up.stop() == 0
    path = _snapshot(up)
    old = bytearray(path.read_bytes())
    _commit_again_and_stop(up, 9)
    # As if the first one had been written for a topic of the same name.
    old[30:46] = bytes(reversed(old[30:46]))
    old[6:10] = crc32c(bytes(old[10:])).to_bytes(4, "big")
    path.write_bytes(old)
    up.start()
    assert _committed(up) == 9, "the log is right"
    (line,) = up.process.lines_with("group_snapshot_ignored")
    assert bytes(old[30:46]).hex() in line


def _commit_again_and_stop(up: Up, offset: int) -> None:
    up.start()
    _commit(up, offset)
    assert up.stop() == 0
