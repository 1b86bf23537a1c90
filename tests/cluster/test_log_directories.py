"""A node with two log directories, one of which breaks and is repaired."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from highwater.embed.clients.kafka_client import BrokerError, KafkaClient
from tests.cluster.runner import HIGHWATER, HOST
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.process import ManagedProcess, free_port_block, wait_until

TOPIC = "numbers"
PARTITIONS = 6
SLOW_WRITES = "slow_writes.so"
SLOW_WRITE_S = 0.3
_SOURCE = Path(__file__).parents[1] / "support" / "slow_writes.c"


class Services:
    """Controller, gateway and one partition node with two directories, as processes."""

    def __init__(self, directory: Path) -> None:
        self.dirs = (directory / "a", directory / "b")
        port = free_port_block(4)  # The gateway's, the node's on the gateway, two for gRPC.
        self.bootstrap = f"{HOST}:{port}"
        controllers = f'["{HOST}:{port + 2}"]'
        log_dirs = ", ".join(f'"{path}"' for path in self.dirs)
        self.controller = self._process(
            "controller", directory, port=port + 2, data_dir=directory / "controller"
        )
        self.node = self._process(
            "partition",
            directory,
            port=port + 3,
            log_dirs=f"[{log_dirs}]",
            controllers=controllers,
            quota_address="",
        )
        self.gateway = self._process("gateway", directory, port=port, controllers=controllers)

    @staticmethod
    def _process(service: str, directory: Path, **settings: object) -> ManagedProcess:
        slow = {
            "LD_PRELOAD": str(directory / SLOW_WRITES),
            "SLOW_WRITES_PATH": str(directory / "b"),
            "SLOW_WRITES_SWITCH": str(directory / "slow"),
        }
        preloaded = slow if (directory / SLOW_WRITES).exists() else {}
        return ManagedProcess(
            service,
            [str(HIGHWATER), service],
            log_path=directory / f"{service}.log",
            environment={
                f"HIGHWATER_{service.upper()}_{name.upper()}": str(value)
                for name, value in settings.items()
            }
            | preloaded,
        )

    def start(self) -> None:
        for process in (self.controller, self.node, self.gateway):
            process.start()
        wait_until(self.has_a_node, timeout_s=40, what="a node in Metadata")
        # It is listed while it is fenced, too.
        unfenced = partial(self.controller.lines_with, "node_unfenced")
        wait_until(lambda: bool(list(unfenced())), timeout_s=40, what="a node that may lead")

    def has_a_node(self) -> bool:
        try:
            return len(self._admin().list_topics(timeout=2).brokers) == 1
        except KafkaException:
            return False

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def leaders(self, topic: str = TOPIC) -> list[int]:
        """By partition; -1 where there is none."""
        partitions = self._admin().list_topics(topic, timeout=10).topics[topic].partitions
        return [partitions[number].leader for number in sorted(partitions)]

    def errors(self) -> set[int]:
        partitions = self._admin().list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
        return {p.error.code() for p in partitions.values() if p.error is not None}

    def stop(self) -> None:
        for process in (self.gateway, self.node, self.controller):
            process.stop(timeout_s=30)


@pytest.fixture
def slow_writes(tmp_path: Path) -> Path:
    """A file: while it exists, writes to the second directory take 0.3 s."""
    compiler = shutil.which("cc")
    assert compiler is not None, "no C compiler: make peers installs one"
    command = [compiler, "-shared", "-fPIC", "-o", str(tmp_path / SLOW_WRITES), str(_SOURCE)]
    subprocess.run([*command, "-ldl"], check=True, timeout=60)
    return tmp_path / "slow"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    made = Services(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def partitions_in(directory: Path, topic: str = TOPIC) -> set[int]:
    return {int(path.name.rpartition("-")[2]) for path in directory.glob(f"{topic}-?")}


def test_a_broken_directory_and_its_repair(services: Services, tmp_path: Path) -> None:
    with KafkaClient(services.bootstrap) as client:
        client.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1, configs={})
    producer = NumberedProducer(services.bootstrap, TOPIC)
    producer.send(600)
    producer.flush()
    lost = partitions_in(services.dirs[1])
    assert 0 < len(lost) < PARTITIONS
    wanted = [-1 if number in lost else 1 for number in range(PARTITIONS)]

    assert services.node.stop(timeout_s=30) == 0
    services.dirs[1].rename(tmp_path / "away")
    services.dirs[1].write_text("not a directory")
    services.node.start()
    wait_until(lambda: services.leaders() == wanted, timeout_s=40, what="leaders of the rest")
    assert services.errors() == {KafkaError.LEADER_NOT_AVAILABLE}
    with KafkaClient(services.bootstrap) as client:
        client.create_topic("new", partitions=2, replication_factor=1, configs={})
    other = NumberedProducer(services.bootstrap, "new")
    other.send(10)
    other.flush()
    assert sorted(read_all(services.bootstrap, "new", 2)) == sorted(other.acknowledged)
    assert services.leaders() == wanted, "and so it stays"

    assert services.node.stop(timeout_s=30) == 0
    services.dirs[1].unlink()
    (tmp_path / "away").rename(services.dirs[1])
    services.node.start()
    wait_until(lambda: services.leaders() == [1] * PARTITIONS, timeout_s=40, what="all leaders")
    read = read_all(services.bootstrap, TOPIC, PARTITIONS)
    assert sorted(read) == sorted(producer.acknowledged)
    assert len(read) == 600


def test_a_topic_that_was_deleted_while_the_node_was_down(
    services: Services, tmp_path: Path
) -> None:
    with KafkaClient(services.bootstrap) as client:
        client.create_topic(TOPIC, partitions=2, replication_factor=1, configs={})
        producer = NumberedProducer(services.bootstrap, TOPIC)
        producer.send(20)
        producer.flush()
        assert services.node.stop(timeout_s=30) == 0
        client.delete_topic(TOPIC)
        services.node.start()

        def strays() -> list[str]:
            return sorted(p.name.split(".")[0] for d in services.dirs for p in d.glob("*-stray"))

        wait_until(lambda: strays() == [f"{TOPIC}-0", f"{TOPIC}-1"], timeout_s=40, what="strays")

        def created() -> bool:
            try:
                client.create_topic(TOPIC, partitions=2, replication_factor=1, configs={})
            except BrokerError:
                return False  # The node may not take replicas yet.
            return True

        wait_until(created, timeout_s=40, what="a new topic of that name")
    assert read_all(services.bootstrap, TOPIC, 2) == []
    assert "stray_log" in (tmp_path / "partition.log").read_text()


def test_no_usable_directory_is_the_operators_mistake(services: Services, tmp_path: Path) -> None:
    assert services.node.stop(timeout_s=30) == 0
    for path in services.dirs:
        path.rename(tmp_path / f"{path.name}-away")
        path.write_text("not a directory")
    before = (tmp_path / "partition.log").read_text()
    services.node.start()
    wait_until(lambda: not services.node.running, timeout_s=20, what="the end of the node")
    assert services.node.stop(timeout_s=5) == 2
    said = (tmp_path / "partition.log").read_text().removeprefix(before)
    [line] = [line for line in said.splitlines() if "no log directory can be used" in line]
    assert all(str(path) in line for path in services.dirs)


def latency(producer: Producer, partition: int) -> float:
    """Seconds until a record is acknowledged."""
    began = time.monotonic()
    producer.produce(TOPIC, b"x", partition=partition)
    assert producer.flush(20) == 0
    return time.monotonic() - began


def test_a_slow_directory_holds_up_only_its_partitions(
    slow_writes: Path, services: Services
) -> None:
    with KafkaClient(services.bootstrap) as client:
        client.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1, configs={})
    settings = {"bootstrap.servers": services.bootstrap, "linger.ms": 0, "acks": "all"}
    quick, slow = Producer(settings), Producer(settings)
    here, there = min(partitions_in(services.dirs[0])), min(partitions_in(services.dirs[1]))
    for _ in range(3):
        latency(quick, here)
        latency(slow, there)
    slow_writes.touch()
    assert latency(slow, there) >= SLOW_WRITE_S, "the write by which the node notices"
    for _ in range(8):
        slow.produce(TOPIC, b"x", partition=there)
    slow.poll(0)
    times = []
    ends = time.monotonic() + 1.5
    while time.monotonic() < ends:
        times.append(latency(quick, here))
    times.sort()
    assert slow.flush(30) == 0
    assert len(times) > 20
    assert times[len(times) * 9 // 10] < 0.05
    assert latency(slow, there) >= SLOW_WRITE_S
    assert services.leaders() == [1] * PARTITIONS, "nobody took the node for dead"
    slow_writes.unlink()
    for _ in range(250):
        slow.produce(TOPIC, b"x", partition=there)
        slow.flush(10)
    assert latency(slow, there) < 0.1
    assert len(read_all(services.bootstrap, TOPIC, PARTITIONS)) == 3 + 3 + 1 + 8 + len(times) + 252
