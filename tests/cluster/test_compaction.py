"""A compacted topic as its clients see it: small and complete, also after a crash."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.partition.storage.directory.lineage_file import LINEAGE_FILE
from tests.cluster.runner import Up, is_alive
from tests.support.process import wait_until
from tests.support.segment_sizes import segment_bytes

TOPIC = "table"
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(1 << 20),
    "file.delete.delay.ms": "100",
}
KEYS = 40
FILLER = b"." * 2_000
SIZE_MAX = 2_500_000
"""Size of one replica after compaction: an active segment, and 80 kB of values."""

Table = dict[bytes, tuple[int, bytes]]


@pytest.fixture
def up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Up]:
    made = Up(request.param, tmp_path)
    made.process.set_environment("HIGHWATER_PARTITION_LOG_CLEANER_BACKOFF_MS", "200")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def make_topic(up: Up) -> None:
    with KafkaClient(up.bootstrap) as client:
        client.create_topic(TOPIC, partitions=1, replication_factor=up.node_count, configs=CONFIGS)


def update(up: Up, table: Table, rounds: int, *, codec: str = "none") -> None:
    """Writes every key so many times; `table` gets the result that a reader must have."""
    producer = Producer(
        {
            "bootstrap.servers": up.bootstrap,
            "compression.type": codec,
            "batch.size": 20_000,
            "enable.idempotence": True,
        }
    )
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: object) -> None:
        if error is not None:
            failures.append(error)
            return
        table[message.key()] = message.offset(), message.value()  # type: ignore[attr-defined]

    for number in range(rounds * KEYS):
        key = b"key %d" % (number % KEYS)
        producer.produce(TOPIC, key=key, value=b"%d" % number + FILLER, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def consume(up: Up, table: Table) -> tuple[Table, int]:
    """The table that a consumer of the whole topic gets, and the number of records read."""
    end = max(offset for offset, _ in table.values())
    consumer = Consumer({"bootstrap.servers": up.bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: Table = {}
    last, count = -1, 0
    try:
        while last < end:
            message = consumer.poll(20)
            assert message is not None, f"nothing after offset {last} of {end}"
            assert message.error() is None
            assert message.offset() > last
            last = message.offset()
            count += 1
            found[message.key()] = last, message.value()
    finally:
        consumer.close()
    return found, count


def directories(up: Up) -> list[Path]:
    return sorted(up.data_dir.rglob(f"{TOPIC}-0"))


def runs(child: psutil.Process) -> bool:
    """False for zombies, too: the first process of some containers never reaps them."""
    try:
        return child.is_running() and child.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_small(up: Up) -> None:
    wait_until(
        lambda: all(segment_bytes(directory) < SIZE_MAX for directory in directories(up)),
        timeout_s=60,
        what="compaction",
    )


@pytest.mark.parametrize("up", ["embedded"], indirect=True)
def test_a_table_stays_small_and_whole(up: Up) -> None:
    make_topic(up)
    table: Table = {}
    update(up, table, 80)
    (directory,) = directories(up)
    update(up, table, 20, codec="lz4")
    wait_until_small(up)
    found, count = consume(up, table)
    assert found == table
    assert count < 50 * KEYS
    assert (directory / ".highwater_gaps").exists()
    producer = Producer({"bootstrap.servers": up.bootstrap})
    refused: list[KafkaError] = []
    producer.produce(TOPIC, value=b"no key", on_delivery=lambda error, _: refused.append(error))
    producer.flush(20)
    assert [error.code() for error in refused] == [KafkaError.INVALID_RECORD]
    assert up.stop() == 0
    up.start()
    assert consume(up, table)[0] == table
    update(up, table, 80)
    wait_until_small(up)
    assert consume(up, table)[0] == table


@pytest.mark.parametrize("up", ["embedded"], indirect=True)
def test_killed_while_it_cleans(up: Up) -> None:
    make_topic(up)
    table: Table = {}
    children: set[psutil.Process] = set()
    for _ in range(3):
        update(up, table, 80)
        (directory,) = directories(up)
        wait_until(
            lambda directory=directory: bool(
                [*directory.glob("*.cleaned"), *directory.glob("*.swap")]
            ),
            timeout_s=60,
            what="a cleaning under way",
            poll_s=0.002,
        )
        children |= set(psutil.Process(up.process.pid).children(recursive=True))
        up.kill()
        up.start()
        assert consume(up, table)[0] == table
    wait_until_small(up)
    assert consume(up, table)[0] == table
    assert children != set()
    wait_until(
        lambda: not any(map(runs, children)), timeout_s=10, what="the end of a dead node's children"
    )


@pytest.mark.parametrize("up", ["nodes3"], indirect=True)
@pytest.mark.timeout(300)
@pytest.mark.full
def test_a_follower_that_begins_at_0_copies_what_is_left(up: Up) -> None:
    make_topic(up)
    table: Table = {}
    update(up, table, 80)
    wait_until_small(up)
    assert len(directories(up)) == 3
    expected, _ = consume(up, table)
    assert expected == table
    # Kill the controller first: it would make the node that stops last the only one that may lead,
    # and that may be the one emptied below. The supervisor is too slow to restart it.
    pids = up.pids()
    controllers = [pids.pop(name) for name in list(pids) if name.startswith("controller")]
    for pid in controllers:
        os.kill(pid, signal.SIGKILL)
    up.kill()
    for pid in pids.values():
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: not any(map(is_alive, (*controllers, *pids.values()))),
        timeout_s=10,
        what="the end of all",
    )
    emptied = directories(up)[0]
    for path in emptied.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    # Without its lineage the node does not claim to have its log, and its empty log cannot lead.
    (emptied.parent / LINEAGE_FILE).unlink()
    up.start()
    update(up, table, 1)
    wait_until(
        lambda: (emptied / ".highwater_gaps").exists() and segment_bytes(emptied) > 80_000,
        timeout_s=60,
        what="the copy",
    )
    assert consume(up, table)[0] == table
