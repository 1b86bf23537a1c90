"""Two quota services as processes: the preferred one is killed under load, and comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.produce_load import Load, greatest_in_any
from tests.cluster.quota_cluster import START_S, QuotaCluster
from tests.support.process import wait_until

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NODES = 2
PARTITION = {"replica_selector_class": RACK_AWARE}
RATE_LIMIT = 500_000
WINDOW_S = 10.0
TOLERANCE = 1.02
WARM_UP_S = 8.0
RETURN_S = 45.0
"""Nodes try the preferred service again every 30 s."""
ONE_BY_ONE: dict[str, str | int] = {
    "max.in.flight": 1,
    "batch.num.messages": 1,
    "queue.buffering.max.messages": 10,
}
"""What a client has under way passes the limit before it hears of it; here that is a record."""
RECORD = b"x" * 5_000


@pytest.fixture
def services(tmp_path: Path) -> Iterator[QuotaCluster]:
    with QuotaCluster(tmp_path, nodes=NODES, quotas=2, partition=PARTITION) as made:
        yield made


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_limit_holds_while_one_dies_and_comes_back(services: QuotaCluster) -> None:
    client = AdminClient({"bootstrap.servers": services.bootstrap})
    client.create_topics([NewTopic("hot", NODES, 1)])["hot"].result(START_S)
    services.set_limit("--produce-bytes-per-second", RATE_LIMIT)
    services.wait_for_streams(NODES, 0, START_S)

    loads = [
        Load(
            services.bootstrap,
            "hot",
            partition=partition,
            clients=3 - 2 * partition,
            record=RECORD,
            settings=ONE_BY_ONE,
        )
        for partition in range(NODES)
    ]
    with loads[0], loads[1]:
        time.sleep(WARM_UP_S)
        measured_s = time.monotonic()
        services.quotas[0].kill()
        services.wait_for_streams(-1, NODES, START_S)
        time.sleep(WINDOW_S / 2)
        services.quotas[0].start()
        services.wait_for_streams(NODES, 0, RETURN_S)
        time.sleep(WINDOW_S / 2)
        ended_s = time.monotonic()
    assert [load.errors for load in loads] == [[], []]
    both = sorted(one for load in loads for one in load.acknowledged if one[0] > measured_s)
    assert greatest_in_any(WINDOW_S, both) <= TOLERANCE * RATE_LIMIT * WINDOW_S
    during = sum(nbytes for at_s, nbytes in both if at_s < ended_s)
    assert during >= 0.3 * RATE_LIMIT * (ended_s - measured_s), "clients went on"


def test_the_greatest_amount_in_a_window() -> None:
    assert greatest_in_any(10, []) == 0
    assert greatest_in_any(10, [(0.0, 5), (9.9, 1), (10.0, 2), (19.0, 3)]) == 6


@pytest.mark.full
@pytest.mark.timeout(240)
def test_consumers_of_a_follower_have_a_part_of_the_consume_limit(services: QuotaCluster) -> None:
    """The node that they read from leads nothing (KIP-392), and was never told a share for that."""
    client = AdminClient({"bootstrap.servers": services.bootstrap})
    client.create_topics([NewTopic("near", 1, NODES)])["near"].result(START_S)
    (partition,) = client.list_topics("near").topics["near"].partitions.values()
    follower = next(node for node in partition.replicas if node != partition.leader)
    with Load(services.bootstrap, "near", partition=0, clients=1) as load:
        wait_until(
            lambda: sum(nbytes for _, nbytes in list(load.acknowledged)) > 30 * RATE_LIMIT,
            timeout_s=START_S,
            what="enough to read",
        )
    services.set_limit("--consume-bytes-per-second", RATE_LIMIT)
    services.wait_for_streams(NODES, 0, START_S)
    time.sleep(2)  # So long until both nodes have heard of the limit.
    consumer = Consumer(
        {
            "bootstrap.servers": services.bootstrap,
            "group.id": "near",
            "client.rack": f"rack-{follower}",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 256,
            "fetch.message.max.bytes": 100_000,
        }
    )
    try:
        consumer.assign([TopicPartition("near", 0, 0)])
        read: list[tuple[float, int]] = []
        began_s = time.monotonic()
        while time.monotonic() < began_s + WARM_UP_S + WINDOW_S:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                read.append((time.monotonic(), len(message)))
    finally:
        consumer.close()
    used = sum(nbytes for at_s, nbytes in read if at_s >= began_s + WARM_UP_S)
    # What it has fetched ahead comes on top.
    assert 0.9 * RATE_LIMIT * WINDOW_S <= used <= 1.1 * RATE_LIMIT * WINDOW_S
