"""Apache Kafka's broker serves a partition's directory that Highwater wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from highwater.partition.storage.config import LogConfig
from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.support.kafka_peer import KafkaPeer
from tests.support.log_batches import append, make_batch, open_log
from tests.support.process import wait_until
from tests.support.transactional_logs import end, write

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.full, pytest.mark.timeout(300)]

TOPIC = "orders"
ROUNDS = 30
OWN_FILES = ("partition.metadata",)
"""Kafka's, which names the topic's id there."""


def written(directory: Path) -> tuple[list[bytes], list[bytes]]:
    """A log of several segments, closed in order: (all values, those that are committed)."""
    log = open_log(directory, LogConfig(segment_bytes=2_000, index_interval_bytes=200))
    every: list[bytes] = []
    committed: list[bytes] = []
    for number in range(ROUNDS):
        commits = number % 3 == 0
        plain, first, second = (
            b"%s-%d" % (kind, number) for kind in (b"plain", b"first", b"other")
        )
        write(log, 5, value=first)
        append(log, make_batch(timestamps=(1_700_000_000_000,), value=plain))
        write(log, 6, value=second)
        end(log, 5, commit=commits, coordinator_epoch=number)
        end(log, 6, commit=False, coordinator_epoch=number)
        every += [first, plain, second]
        committed += [first, plain] if commits else [plain]
    assert len(log.extent.all) > 3
    log.close(clean=True)
    return every, committed


def read(bootstrap: str, isolation: str) -> list[bytes]:
    """All values, in their order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": isolation,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(CLIENT_TIMEOUT_S)
            assert message is not None, f"nothing more after {len(values)} records"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return values
            value = message.value()
            assert value is not None
            values.append(value)
    finally:
        consumer.close()


@pytest.mark.parametrize("indexes", [True, False], ids=["with indexes", "without"])
def test_records_transactions_and_appends(tmp_path: Path, indexes: bool) -> None:
    """Without indexes, and after an unclean stop, Kafka reads the batches themselves."""
    ours = tmp_path / "ours" / f"{TOPIC}-0"
    ours.parent.mkdir()
    every, committed = written(ours)
    kafka = KafkaPeer(data_dir=tmp_path / "kafka")
    kafka.start()
    try:
        kafka.create_topic(TOPIC, 1)
        kafka.stop()
        (logs,) = kafka.log_dirs
        theirs = logs / f"{TOPIC}-0"
        for file in theirs.iterdir():
            if file.name not in OWN_FILES:
                file.unlink()
        for file in ours.iterdir():
            index = file.suffix in {".index", ".timeindex", ".txnindex", ".snapshot"}
            if file.name not in OWN_FILES and (indexes or not index):
                shutil.copy(file, theirs)
        if not indexes:
            (logs / ".kafka_cleanshutdown").unlink()
        kafka.start()
        wait_until(
            lambda: read(kafka.bootstrap, "read_uncommitted") == every,
            timeout_s=CLIENT_TIMEOUT_S,
            what="all records",
        )
        assert read(kafka.bootstrap, "read_committed") == committed
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
        producer.produce(TOPIC, b"new")
        assert producer.flush(CLIENT_TIMEOUT_S) == 0
        assert read(kafka.bootstrap, "read_committed") == [*committed, b"new"]
    finally:
        kafka.stop()
