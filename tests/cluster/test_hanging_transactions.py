"""A transaction that no coordinator will ever end is found and ended by Kafka's own tool (KIP-664)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.cluster.runner import Up
from tests.conformance.topics import make_topic
from tests.support.java_tools import TRANSACTIONS, java_tool
from tests.support.log_batches import append, make_batch, open_log
from tests.support.process import wait_until
from tests.support.transactional_logs import write

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(240)]

TOPIC = "payments"
PRODUCER = 4_711
PATIENCE_S = 30.0


def leave_open(directory: Path) -> None:
    """Beyond the cluster, so that its coordinators know nothing: leaders let nobody write that otherwise. The
    records are from 2023, long before the longest transaction that the tool takes for alive.
    """
    log = open_log(directory, clean=True)
    write(log, PRODUCER, value=b"hanging")
    append(log, make_batch(timestamps=(1_700_000_000_000,), value=b"behind"))
    log.close(clean=True)


def hanging(up: Up) -> str:
    """The lines of the tool's table."""
    done = java_tool(
        TRANSACTIONS, "--bootstrap-server", up.bootstrap, "find-hanging", "--topic", TOPIC
    )
    assert re.search(r"Topic\s+Partition\s+ProducerId", done.stdout), done.stdout + done.stderr
    return done.stdout.split("\n", 1)[1]


def test_a_hanging_transaction_is_found_and_aborted(tmp_path: Path) -> None:
    up = Up("embedded", tmp_path)
    up.start()
    try:
        make_topic(up.bootstrap, TOPIC, configs={"retention.ms": "-1"})
        up.stop()
        (directory,) = up.data_dir.rglob(f"{TOPIC}-0")
        leave_open(directory)
        up.start()
        consumer = Consumer(
            {
                "bootstrap.servers": up.bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        try:
            assert consumer.poll(2.0) is None, "the open transaction holds readers up"
            assert re.search(rf"{TOPIC}\s+0\s+{PRODUCER}\s", hanging(up))
            where = ("--topic", TOPIC, "--partition", "0", "--start-offset", "0")
            java_tool(TRANSACTIONS, "--bootstrap-server", up.bootstrap, "abort", *where)
            values: list[bytes | None] = []

            def read() -> bool:
                message = consumer.poll(0.2)
                if message is not None:
                    assert message.error() is None, message.error()
                    values.append(message.value())
                return bool(values)

            wait_until(read, timeout_s=PATIENCE_S, what="what was behind it", poll_s=0)
            assert values == [b"behind"]
        finally:
            consumer.close()
        assert TOPIC not in hanging(up)
    finally:
        up.stop()
