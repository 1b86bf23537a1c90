"""Gateways with two listeners each: a client learns only addresses of the one it came by."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka import KafkaAdminClient, KafkaProducer

from highwater.kafka.messages.describe_cluster import DescribeClusterRequest
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.kafka.messages.metadata import MetadataRequest
from tests.cluster import replicated as three
from tests.conformance.clients.kafka_python import MEMBER_POLL_S, open_consumer, poll
from tests.support.cluster_view import view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import free_port_block, wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.wire import RawConnection, only

pytestmark = pytest.mark.etcd

NODES = (1, 2, 3)
OUTSIDE, INSIDE = "127.0.0.1", "127.0.0.2"
PARTITIONS = 6
PATIENCE_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One listener: its host, and the bootstrap port of each gateway."""

    host: str
    ports: tuple[int, ...]

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.ports[0]}"

    @property
    def addresses(self) -> set[str]:
        """What clients may be told for nodes."""
        return {f"{self.host}:{port + node}" for port in self.ports for node in NODES}

    @property
    def all_addresses(self) -> set[str]:
        return self.addresses | {f"{self.host}:{port}" for port in self.ports}


@dataclass(slots=True)
class Seen:
    """The addresses that a client of librdkafka has had, by its statistics."""

    addresses: set[str] = field(default_factory=set)

    def take(self, statistics: str) -> None:
        names = {one["nodename"] for one in json.loads(statistics)["brokers"].values()}
        self.addresses |= {name for name in names if name.rpartition(":")[0]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateways:
    """A running cluster whose gateways have the listener `internal` beside the default one."""

    cluster: ReplicatedCluster
    ways: dict[str, Way]


def split(directory: Path) -> Iterator[Gateways]:
    """Two gateways without nodes, each with blocks of its own."""
    block = len(NODES) + 1
    first = free_port_block(2 * block, INSIDE)
    inside = (first, first + block)
    shape = Shape(
        nodes=len(NODES),
        controllers=1,
        gateways=2,
        etcd_members=1,
        settings={
            "controller": three.FAST_SESSIONS,
            "gateway-1": internal(inside[0]),
            "gateway-2": internal(inside[1]),
        },
    )
    with three.running(directory, shape) as made:
        outside = tuple(made.ports.gateway_block(number)[0] for number in made.gateway_ids)
        yield Gateways(cluster=made, ways=both_ways(outside, inside))


def combined(directory: Path) -> Iterator[Gateways]:
    """Every node has a gateway in its process; they share a block of each listener."""
    inside = free_port_block(len(NODES) + 1, INSIDE)
    shape = Shape(
        nodes=len(NODES),
        combined=len(NODES),
        controllers=1,
        gateways=0,
        etcd_members=1,
        settings={"controller": three.FAST_SESSIONS, "gateway": internal(inside)},
    )
    with three.running(directory, shape) as made:
        yield Gateways(cluster=made, ways=both_ways((made.ports.shared,), (inside,)))


def internal(port: int) -> dict[str, str]:
    return {"listeners.Internal.host": INSIDE, "listeners.Internal.port": str(port)}


def both_ways(outside: tuple[int, ...], inside: tuple[int, ...]) -> dict[str, Way]:
    return {
        "default": Way(host=OUTSIDE, ports=outside),
        "internal": Way(host=INSIDE, ports=inside),
    }


@pytest.fixture(scope="module", params=[split, combined])
def gateways(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateways]:
    yield from request.param(tmp_path_factory.mktemp("listeners"))


@pytest.fixture(params=["default", "internal"])
def way(request: pytest.FixtureRequest, gateways: Gateways) -> Way:
    return gateways.ways[request.param]


@pytest.fixture
def topic(gateways: Gateways) -> str:
    return make_replicated_topic(
        gateways.cluster.bootstrap, "t", partitions=PARTITIONS, configs={"min.insync.replicas": "2"}
    )


def test_every_answer_with_addresses_has_those_of_the_listener(way: Way, topic: str):
    told = set()
    for address in sorted(way.all_addresses):
        with RawConnection.to(address) as connection:
            for request, version in ((MetadataRequest(None), 9), (DescribeClusterRequest(), 2)):
                brokers = connection.ask(request, version).brokers
                assert len(brokers) == len(NODES)
                told |= {f"{one.host}:{one.port}" for one in brokers}

            def coordinator(connection: RawConnection = connection) -> str | None:
                request = FindCoordinatorRequest(key_type=0, coordinator_keys=[topic])
                found = only(connection.ask(request, 4).coordinators)
                return None if found.error_code else f"{found.host}:{found.port}"

            wait_until(coordinator, timeout_s=PATIENCE_S, what="a coordinator")
            told.add(str(coordinator()))
    assert told <= way.addresses
    assert len(told) == len(NODES), "each node has one gateway, whoever answers"


def test_kafka_python_produces_and_consumes(way: Way, topic: str):
    admin = KafkaAdminClient(bootstrap_servers=way.bootstrap)
    brokers = admin.describe_cluster()["brokers"]
    admin.close()
    assert {f"{one['host']}:{one['port']}" for one in brokers} <= way.addresses
    producer = KafkaProducer(bootstrap_servers=way.bootstrap, acks="all")
    sent = {b"%d" % number for number in range(100)}
    for future in [producer.send(topic, value, key=value) for value in sent]:
        future.get(PATIENCE_S)
    producer.close()
    consumer = open_consumer(way.bootstrap, group_id=f"g-{topic}")
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < len(sent) and time.monotonic() < deadline:
        found += [stored.message.value for stored in poll(consumer, MEMBER_POLL_S)]
    consumer.close()
    assert sorted(found) == sorted(sent)


def test_librdkafka_stays_on_its_listener_while_leaders_move(
    gateways: Gateways, way: Way, topic: str
):
    seen = Seen()
    acknowledged: list[bytes] = []
    errors: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(message.value())
        else:
            errors.append(str(error))

    settings = {
        "bootstrap.servers": way.bootstrap,
        "statistics.interval.ms": 100,
        "stats_cb": seen.take,
    }
    producer = Producer(
        {**settings, "enable.idempotence": True, "message.timeout.ms": int(PATIENCE_S * 1000)}
    )
    consumer = Consumer(
        {**settings, "group.id": f"g-{uuid.uuid4().hex}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: set[bytes] = set()

    def send_and_read(count: int) -> None:
        first = len(acknowledged)
        for number in range(first, first + count):
            value = b"%d" % number
            producer.produce(topic, value, key=value, on_delivery=delivered)
        assert producer.flush(PATIENCE_S) == 0
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < len(acknowledged) and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.add(message.value())
        assert found == set(acknowledged)

    try:
        send_and_read(200)
        victim = view(gateways.cluster.bootstrap, topic)[0].leader
        gateways.cluster.kill_node(victim)
        wait_for_view(
            way.bootstrap,
            topic,
            lambda parts: all(part.leader not in (-1, victim) for part in parts.values()),
            timeout_s=PATIENCE_S,
            what="leaders on the other nodes",
        )
        send_and_read(200)
        gateways.cluster.restart_node(victim)
        send_and_read(200)
        time.sleep(0.3)  # The last statistics.
        producer.poll(0)
        consumer.poll(0)
    finally:
        consumer.close()
    assert errors == []
    assert len(seen.addresses & way.addresses) >= len(NODES)
    assert seen.addresses <= way.all_addresses
    three.heal(gateways.cluster)


def test_a_broker_shows_all_of_its_listeners(gateways: Gateways, way: Way):
    resource = ConfigResource(ConfigResource.Type.BROKER, "2")
    admin = AdminClient({"bootstrap.servers": way.bootstrap})
    config = admin.describe_configs([resource])[resource].result(PATIENCE_S)["advertised.listeners"]
    ports = zip(gateways.ways["default"].ports, gateways.ways["internal"].ports, strict=True)
    assert config.value in {
        f"PLAINTEXT://{OUTSIDE}:{outside + 2},INTERNAL://{INSIDE}:{inside + 2}"
        for outside, inside in ports
    }
