"""kill -9 of a partition node, and of the whole embedded broker, under load."""

from __future__ import annotations

import os
import signal

import pytest

from highwater.embed.clients.kafka_client import KafkaClient
from tests.cluster.runner import Up
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.process import wait_until

PARTITIONS = 6


@pytest.mark.parametrize(
    "up",
    [
        "embedded",
        "combined3",
        pytest.param("nodes3", marks=pytest.mark.full),
    ],
    indirect=True,
)
def test_acknowledged_records_are_there_once_after_kill(up: Up):
    with KafkaClient(up.bootstrap) as client:
        client.create_topic("numbers", partitions=PARTITIONS, replication_factor=1, configs={})
    producer = NumberedProducer(up.bootstrap, "numbers")
    producer.send(2_000)
    producer.flush()

    producer.send(500)  # Some of these are in flight when the node dies.
    _kill_one_node(up)
    producer.send(500)
    producer.flush()
    assert not producer.errors
    assert len(producer.acknowledged) == 3_000

    found = read_all(up.bootstrap, "numbers", PARTITIONS)
    assert len(found) == len(set(found))
    assert set(found) == producer.acknowledged


def _kill_one_node(up: Up) -> None:
    if up.mode == "embedded":
        up.kill()
        up.start()
        return
    name = up.node_process(2)
    before = up.pids()[name]
    os.kill(before, signal.SIGKILL)
    wait_until(
        lambda: up.pids().get(name, before) != before,
        timeout_s=15,
        what="a new process for node 2",
    )
