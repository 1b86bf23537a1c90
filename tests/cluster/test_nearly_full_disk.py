"""A node's disk becomes nearly full: others lead meanwhile, and those who write see no error.

Ordinary producers, as a batch that comes before the leader moves is refused, and they send it again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.kafka.error_codes import ErrorCode
from tests.cluster.replicated import FAST_SESSIONS, in_form, running
from tests.cluster.traffic import read_all
from tests.support import mounted_disk
from tests.support.cluster_view import Partitions, is_whole, view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.mounted_disk import SmallDisk
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

NODE = 2
PARTITIONS = 3
DISK_BYTES = 128 << 20
MARK_BYTES = 32 << 20
MOVED_S = 30.0
"""For a look at the disk, one at what the controller has heard, and a hand-over: 3 s on a quiet machine."""
BALANCE_MS = 1_000
QUIET_S = 4 * BALANCE_MS / 1000
"""Rounds of the balance, and of the pause after a disk has space, in which leaders could come back."""
ACKS = {"all": "all", "leader-only": "1"}


class SteadyProducer(threading.Thread):
    """Sends "0", "1", ... to one partition; notes what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partition: int, acks: str) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._partition = partition
        self._stopping = threading.Event()
        self.acknowledged: set[bytes] = set()
        self.errors: list[KafkaError] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 2, "retry.backoff.ms": 50}
        )

    def run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self._producer.produce(
                self._topic,
                str(number).encode(),
                partition=self._partition,
                on_delivery=self._delivered,
            )
            number += 1
            self._producer.poll(0.002)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        else:
            self.errors.append(error)

    def wait_for_more(self) -> None:
        enough = len(self.acknowledged) + 50
        wait_until(lambda: len(self.acknowledged) >= enough, timeout_s=30, what="answers")

    def stop(self) -> None:
        self._stopping.set()
        self.join(10)
        assert self._producer.flush(30) == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if why := mounted_disk.missing():
        pytest.skip(why)
    made = SmallDisk(tmp_path / "disk", size_bytes=DISK_BYTES)
    made.mount()
    yield made
    made.unmount()


@pytest.fixture(params=["split", pytest.param("combined", marks=pytest.mark.full)])
def on_small_disk(
    request: pytest.FixtureRequest, tmp_path: Path, disk: SmallDisk
) -> Iterator[ReplicatedCluster]:
    shape = Shape(
        controllers=1,
        etcd_members=1,
        settings={
            "controller": {
                **FAST_SESSIONS,
                "leader_imbalance_check_interval_ms": str(BALANCE_MS),
            },
            "partition": {"storage.disk_free_min": str(MARK_BYTES)},
            f"node-{NODE}": {"log_dirs": json.dumps([str(disk.path / "data")])},
        },
    )
    with running(tmp_path, in_form(shape, request.param)) as made:
        yield made


def _preferred(partitions: Partitions) -> bool:
    return is_whole(partitions) and all(p.leader == p.replicas[0] for p in partitions.values())


def _elsewhere(partitions: Partitions) -> bool:
    return all(p.leader not in (NODE, -1) for p in partitions.values())


@pytest.mark.timeout(180)
def test_others_lead_until_there_is_space(
    on_small_disk: ReplicatedCluster, disk: SmallDisk
) -> None:
    cluster = on_small_disk
    topics = [
        make_replicated_topic(
            cluster.bootstrap, name, partitions=PARTITIONS, configs={"min.insync.replicas": "2"}
        )
        for name in ACKS
    ]

    def wait(holds: Callable[[Partitions], bool], what: str) -> list[Partitions]:
        return [
            wait_for_view(cluster.bootstrap, topic, holds, timeout_s=MOVED_S, what=what)
            for topic in topics
        ]

    before = wait(_preferred, "preferred leaders")
    led = [next(p.partition for p in now.values() if p.leader == NODE) for now in before]
    producers = [
        SteadyProducer(cluster.bootstrap, topic, number, acks)
        for topic, number, acks in zip(topics, led, ACKS.values(), strict=True)
    ]
    for one in producers:
        one.start()
    for one in producers:
        one.wait_for_more()

    disk.fill(leave_bytes=MARK_BYTES * 3 // 4)
    moved = wait(_elsewhere, "leaders elsewhere")
    for one in producers:
        one.wait_for_more()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    asked = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topics[0], led[0])])
    (refused,) = (one.error for one in asked.result(20))
    assert refused.code() == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

    time.sleep(QUIET_S)
    for topic, then in zip(topics, moved, strict=True):
        now = view(cluster.bootstrap, topic)
        assert is_whole(now), "a node that refuses clients goes on as a follower"
        assert {n: p.leader_epoch for n, p in now.items()} == {
            n: p.leader_epoch for n, p in then.items()
        }, "leaders rest"

    disk.free()
    after = wait(_preferred, "preferred leaders again")
    for one in producers:
        one.wait_for_more()
        one.stop()
    for topic, number, was, came, one in zip(topics, led, before, after, producers, strict=True):
        assert came[number].leader_epoch == was[number].leader_epoch + 2, "away and back"
        assert one.errors == [], topic
        kept = set(read_all(cluster.bootstrap, topic, PARTITIONS))
        assert one.acknowledged <= kept, f"{topic}: nothing that was acknowledged is lost"
