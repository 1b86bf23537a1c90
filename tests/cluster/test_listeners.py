"""Two gateways with two listeners each: a client learns only addresses of the one it came by."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

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
from tests.support.replicated_cluster import ReplicatedCluster, Shape
from tests.support.wire import RawConnection, only

pytestmark = pytest.mark.etcd

NODES = (1, 2, 3)
GATEWAYS = (1, 2)
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


@pytest.fixture(scope="module")
def inside_ports() -> dict[int, int]:
    block = len(NODES) + 1
    first = free_port_block(block * len(GATEWAYS), INSIDE)
    return {number: first + (number - 1) * block for number in GATEWAYS}


@pytest.fixture(scope="module")
def gateways(
    tmp_path_factory: pytest.TempPathFactory, inside_ports: dict[int, int]
) -> Iterator[ReplicatedCluster]:
    shape = Shape(
        nodes=len(NODES),
        controllers=1,
        gateways=len(GATEWAYS),
        etcd_members=1,
        settings={
            "controller": three.FAST_SESSIONS,
            **{
                f"gateway-{number}": {
                    "listeners.Internal.host": INSIDE,
                    "listeners.Internal.port": str(port),
                }
                for number, port in inside_ports.items()
            },
        },
    )
    with three.running(tmp_path_factory.mktemp("listeners"), shape) as made:
        yield made


@pytest.fixture(params=["default", "internal"])
def way(
    request: pytest.FixtureRequest, gateways: ReplicatedCluster, inside_ports: dict[int, int]
) -> Way:
    if request.param == "internal":
        return Way(host=INSIDE, ports=tuple(inside_ports.values()))
    ports = tuple(gateways.gateway_port_block(number)[0] for number in GATEWAYS)
    return Way(host=OUTSIDE, ports=ports)


@pytest.fixture
def topic(gateways: ReplicatedCluster) -> str:
    return make_replicated_topic(
        gateways.bootstrap, "t", partitions=PARTITIONS, configs={"min.insync.replicas": "2"}
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
    gateways: ReplicatedCluster, way: Way, topic: str
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
        victim = view(gateways.bootstrap, topic)[0].leader
        gateways.kill_node(victim)
        wait_for_view(
            way.bootstrap,
            topic,
            lambda parts: all(part.leader not in (-1, victim) for part in parts.values()),
            timeout_s=PATIENCE_S,
            what="leaders on the other nodes",
        )
        send_and_read(200)
        gateways.restart_node(victim)
        send_and_read(200)
        time.sleep(0.3)  # The last statistics.
        producer.poll(0)
        consumer.poll(0)
    finally:
        consumer.close()
    assert errors == []
    assert len(seen.addresses & way.addresses) >= len(NODES)
    assert seen.addresses <= way.all_addresses
    three.heal(gateways)


def test_a_broker_shows_all_of_its_listeners(
    gateways: ReplicatedCluster, way: Way, inside_ports: dict[int, int]
):
    resource = ConfigResource(ConfigResource.Type.BROKER, "2")
    admin = AdminClient({"bootstrap.servers": way.bootstrap})
    config = admin.describe_configs([resource])[resource].result(PATIENCE_S)["advertised.listeners"]
    outside = {number: gateways.gateway_port_block(number)[0] for number in GATEWAYS}
    assert config.value in {
        f"PLAINTEXT://{OUTSIDE}:{outside[number] + 2},INTERNAL://{INSIDE}:{inside_ports[number] + 2}"
        for number in GATEWAYS
    }
