"""Kafka's own Java clients go on while leaders, a controller or a gateway end.

No send fails, no record is lost or duplicated, and no offset goes back. `tests/robustness/faults`
does the same with confluent-kafka for every fault.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from highwater.kafka.error_codes import ErrorCode
from tests.cluster.replicated import FAST_SESSIONS, RECOVERY_S_MAX
from tests.cluster.verifiable import Place, VerifiableConsumer, VerifiableProducer, wall_ms
from tests.conformance.protocol.requests import fetch, list_offset
from tests.support.cluster_view import view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.wire import ConnectionEnded, RawConnection

pytestmark = [pytest.mark.etcd, pytest.mark.java, pytest.mark.timeout(240)]

SHAPE = Shape(controllers=2, gateways=2, settings={"controller": FAST_SESSIONS})
FORMS = ("combined", "split", "grpcio")
PARTITIONS = 3
COUNT, PER_SECOND = 4_000, 250
FAULT_AT = 800
"""Acknowledgements after which a process is ended: a fifth of all, to leave time to recover."""
START_S_MAX = 60.0
LATEST = -1

IDEMPOTENT = {"retries": "2147483647", "enable.idempotence": "true"}
NO_RETRIES = {"retries": "0", "enable.idempotence": "false"}


class HighWatermarks(threading.Thread):
    """Polls the high watermark of a partition, by ListOffsets and by Fetch."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._gateway = bootstrap
        self._topic = topic
        self._stopping = threading.Event()
        self.told: list[int] = []
        self.fetched = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with RawConnection.to(self._gateway) as connection:
                    self._ask(connection)
            except (OSError, ConnectionEnded):
                time.sleep(0.1)  # The gateway may be the one that was killed.

    def _ask(self, connection: RawConnection) -> None:
        while not self._stopping.is_set():
            part = list_offset(connection, self._topic, LATEST)
            if part.error_code == ErrorCode.NONE:
                self.told.append(part.offset)
            if self.told:
                # Fetch at the end, where there are no records.
                part = fetch(connection, self._topic, self.told[-1], max_wait_ms=10)
                if part.error_code == ErrorCode.NONE:
                    self.told.append(part.high_watermark)
                    self.fetched += 1
            time.sleep(0.01)

    def stop(self) -> list[int]:
        self._stopping.set()
        self.join(30)
        return self.told


class Clients:
    """A producer and a consumer on a topic of their own; `start`, and `close` whatever happens."""

    consumer: VerifiableConsumer
    producer: VerifiableProducer

    def __init__(self, cluster: ReplicatedCluster) -> None:
        self.cluster = cluster
        self.topic = make_replicated_topic(
            cluster.bootstrap,
            "verified",
            partitions=PARTITIONS,
            configs={"min.insync.replicas": "2"},
        )
        self.watermarks = HighWatermarks(cluster.bootstrap, self.topic)
        self._closing = ExitStack()

    def start(self, properties: Path, *, acks: int = -1, **settings: str) -> None:
        """Returns when a share of the records is acknowledged."""
        bootstraps, topic = self.cluster.bootstraps, self.topic
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.consumer = VerifiableConsumer(bootstraps, topic, f"of-{topic}")
        self._closing.callback(self.consumer.close)
        self.consumer.wait_for_assignment(timeout_s=START_S_MAX)
        self.watermarks.start()
        self._closing.callback(self.watermarks.stop)
        self.producer = VerifiableProducer(
            bootstraps,
            topic,
            count=COUNT,
            per_second=PER_SECOND,
            settings=properties,
            acks=acks,
        )
        self._closing.callback(self.producer.close)
        self.producer.wait_for_acks(FAULT_AT, timeout_s=START_S_MAX)

    def leader(self) -> int:
        return view(self.cluster.bootstrap, self.topic)[0].leader

    def wait_for_end(self) -> dict[Place, int]:
        """Waits until all records are produced and read; returns their places."""
        self.producer.wait_for_end(timeout_s=COUNT / PER_SECOND + RECOVERY_S_MAX)
        acknowledged = self.producer.acknowledged
        self.consumer.wait_for(set(acknowledged), timeout_s=RECOVERY_S_MAX)
        return acknowledged

    def close(self) -> None:
        self._closing.close()


@pytest.fixture
def clients(
    whole: ReplicatedCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Clients]:
    made = Clients(whole)
    try:
        made.start(tmp_path / "producer.properties", **getattr(request, "param", IDEMPOTENT))
        yield made
    finally:
        made.close()


def kill_leader(clients: Clients) -> None:
    """Returns when it is back."""
    node = clients.leader()
    clients.cluster.kill_node(node)
    wait_for_view(
        clients.cluster.bootstraps.split(",")[0],
        clients.topic,
        lambda parts: all(p.leader not in (-1, node) for p in parts.values()),
        timeout_s=RECOVERY_S_MAX,
        what="other leaders",
    )
    clients.cluster.restart_node(node)


def stop_leader(clients: Clients) -> None:
    node = clients.leader()
    assert clients.cluster.terminate_node(node) == 0
    clients.cluster.restart_node(node)


def kill_controller(clients: Clients) -> None:
    """Kills it together with a leader, so that the next controller must elect at once."""
    cluster = clients.cluster
    before, node = cluster.active_controller(), clients.leader()
    cluster.process(before).kill()
    cluster.kill_node(node)
    wait_until(
        lambda: cluster.active_controller() != before,
        timeout_s=RECOVERY_S_MAX,
        what="another active controller",
    )
    cluster.process(before).start()
    cluster.restart_node(node)


def kill_gateway(clients: Clients) -> None:
    """Kills the second gateway, which serves about half of the leaders."""
    process = clients.cluster.process("gateway-2")
    process.kill()
    time.sleep(3)
    process.start()


def check(clients: Clients, broken_ms: int) -> None:
    """Asserts that no send failed, and no record is lost, duplicated or out of order."""
    producer, consumer = clients.producer, clients.consumer
    acknowledged = clients.wait_for_end()
    assert producer.failed == []
    assert producer.twice == []
    assert sorted(acknowledged.values()) == list(range(COUNT)), "everything was acknowledged, once"
    assert dict(consumer.read) == acknowledged, "what is read is what was acknowledged, and where"
    for partition in range(PARTITIONS):
        offsets = [offset for (part, offset), _ in consumer.read if part == partition]
        assert offsets == list(range(len(offsets))), "in order, none twice"
        assert producer.acknowledged_ms[partition][-1] > broken_ms, "it went on"
    told = clients.watermarks.stop()
    assert len(told) > 10
    assert told == sorted(told), "high watermarks do not go back"
    assert clients.watermarks.told[-1] > 0
    assert clients.watermarks.fetched > 10


def test_a_leader_is_killed(clients: Clients) -> None:
    broken_ms = wall_ms()
    kill_leader(clients)
    check(clients, broken_ms)


@pytest.mark.full
@pytest.mark.parametrize("fault", [stop_leader, kill_controller], ids=["term", "controller"])
def test_other_processes_end(clients: Clients, fault: Callable[[Clients], None]) -> None:
    broken_ms = wall_ms()
    fault(clients)
    check(clients, broken_ms)


@pytest.mark.full
@pytest.mark.forms("split", "grpcio")
@pytest.mark.parametrize("clients", [NO_RETRIES, {**NO_RETRIES, "acks": 1}], indirect=True)
def test_a_producer_without_retries_sees_no_error_when_a_leader_is_stopped(
    clients: Clients,
) -> None:
    """A node's own gateway stops with it, and what a client sends at that moment fails without retries."""
    broken_ms = wall_ms()
    stop_leader(clients)
    check(clients, broken_ms)


@pytest.mark.full
@pytest.mark.forms("split")
def test_a_gateway_without_a_node_is_killed(clients: Clients) -> None:
    broken_ms = wall_ms()
    kill_gateway(clients)
    check(clients, broken_ms)
