"""Instances at the gateways: ports of their own, which come and go, and who may connect by them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kafka import KafkaConsumer, KafkaProducer

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
)
from highwater.kafka.messages.metadata import MetadataRequest
from highwater.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
)
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from tests.cluster.runner import HOST, Up
from tests.conformance.topics import unique_name
from tests.support import instances
from tests.support.java_tools import (
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    PRODUCER_PERFORMANCE,
    java_tool,
)
from tests.support.process import free_port_block, wait_until
from tests.support.wire import ConnectionEnded, RawConnection, only

PATIENCE_S = 30.0
ONE, OTHER = "127.0.0.2", "127.0.0.3"
SOURCES = {ONE, OTHER}
METADATA = MetadataRequest(topics=None)


@dataclass(slots=True)
class Doors:
    """A running cluster with some instances, by name."""

    up: Up
    instances: dict[str, InstanceState] = field(default_factory=dict)

    def make(self, *, block: InstanceListener | None = None, **limits: object) -> str:
        """A new instance with ports of its own; returns its name once these are open."""
        name = unique_name("tenant")
        self.create(name, block or self.block())
        self.change(name, **limits)
        self.wait_open(name)
        return name

    def block(self) -> InstanceListener:
        return InstanceListener(port=free_port_block(self.up.node_count + 1))

    def create(self, name: str, block: InstanceListener) -> None:
        state = InstanceState(instance=InstanceId(name), listeners=(block,))
        self.instances[name] = state
        self.tell(name, instances.create)

    def change(self, name: str, **limits: object) -> None:
        if limits:
            changed = replace(self.instances[name], **limits)  # type: ignore[arg-type]
            self.instances[name] = changed
            self.tell(name, instances.change)

    def tell(self, name: str, call: instances.Call) -> None:
        instances.at(self.up.data_dir, call, self.instances[name])

    def port(self, name: str) -> int:
        return self.instances[name].listeners[0].port

    def bootstrap(self, name: str) -> str:
        return f"{HOST}:{self.port(name)}"

    def ports(self, name: str) -> set[int]:
        """Those that clients are told."""
        port, count = self.port(name), self.up.node_count
        return {port} if count == 1 else {port + node for node in range(1, count + 1)}

    def wait_open(self, name: str) -> None:
        for port in {self.port(name), *self.ports(name)}:
            wait_until(lambda port=port: listens(port), timeout_s=PATIENCE_S, what=f"port {port}")


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("combined3", marks=pytest.mark.full)]
)
def doors(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Doors]:
    up = Up(request.param, tmp_path_factory.mktemp("doors"))
    up.start()
    try:
        yield Doors(up=up)
    finally:
        up.stop()


def listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def confluent_sends(bootstrap: str, topic: str, value: bytes) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0


def confluent_reads(bootstrap: str, topic: str) -> list[bytes]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings)
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while len(values) < high:
        message: Message | None = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert value is not None
        values.append(value)
    consumer.close()
    return values


def kafka_python_sends(bootstrap: str, topic: str, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, max_block_ms=PATIENCE_S * 1000)
    producer.send(topic, value).get(PATIENCE_S)
    producer.close()


def kafka_python_reads(bootstrap: str, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id="equal",
        auto_offset_reset="earliest",
        consumer_timeout_ms=8000,
    )
    values = [message.value for message in consumer]
    consumer.close()
    return values


def java_sends(bootstrap: str, topic: str, value: bytes) -> None:
    java_tool(
        *(CONSOLE_PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic), stdin=value + b"\n"
    )


def java_reads(bootstrap: str, topic: str) -> list[bytes]:
    # It ends with an error where nothing more comes.
    found = java_tool(
        *(CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic),
        *("--from-beginning", "--timeout-ms", "8000", "--group", "equal"),
        check=False,
    )
    return found.stdout.encode().splitlines()


CLIENTS = pytest.mark.parametrize(
    ("sends", "reads"),
    [
        pytest.param(confluent_sends, confluent_reads, id="confluent"),
        pytest.param(kafka_python_sends, kafka_python_reads, id="kafka-python"),
        pytest.param(java_sends, java_reads, id="java", marks=[pytest.mark.java, pytest.mark.full]),
    ],
)
Sends = Callable[[str, str, bytes], None]
Reads = Callable[[str, str], list[bytes]]


def metadata(port: int, source: str = HOST) -> set[int]:
    """The ports of brokers that a client from that address is told. Raises ConnectionEnded."""
    with RawConnection(HOST, port, source=source) as client:
        return {broker.port for broker in client.ask(METADATA, 12).brokers}


# ---- ports ----


@CLIENTS
def test_instances_may_have_the_same_topics(doors: Doors, sends: Sends, reads: Reads) -> None:
    topic = unique_name("orders")
    where = {name: doors.bootstrap(name) for name in (doors.make(), doors.make())}
    where["default"] = doors.up.bootstrap
    for name, bootstrap in where.items():
        sends(bootstrap, topic, name.encode())
    for name, bootstrap in where.items():
        assert reads(bootstrap, topic) == [name.encode()]
        seen = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=PATIENCE_S)
        names = {each for each in seen.topics if not each.startswith("__")}
        assert topic in names
        if name != "default":
            assert set(seen.topics) == {topic}
            assert {broker.port for broker in seen.brokers.values()} == doors.ports(name)


@pytest.mark.java
@pytest.mark.full
def test_java_producers_of_one_transactional_id_do_not_fence_those_of_another_instance(
    doors: Doors,
) -> None:
    """Both are at work at once: in one instance the later one would end the other."""
    topic = unique_name("transactions")
    where = [doors.bootstrap(doors.make()) for _ in range(2)]

    def work(bootstrap: str) -> str:
        # Some ten seconds, in transactions of 50 ms.
        return java_tool(
            *(PRODUCER_PERFORMANCE, "--bootstrap-server", bootstrap, "--topic", topic),
            *("--num-records", "2000", "--throughput", "200", "--record-size", "10"),
            *("--transactional-id", "equal", "--transaction-duration-ms", "50"),
        ).stdout

    with ThreadPoolExecutor(max_workers=2) as both:
        for told in both.map(work, where):
            assert "2000 records sent" in told
    for bootstrap in where:
        assert len(kafka_python_reads(bootstrap, topic)) == 2000


def test_ports_move_and_close_while_the_gateways_run(doors: Doors) -> None:
    name = doors.make()
    before = doors.port(name)
    with RawConnection(HOST, before) as client:
        assert {b.port for b in client.ask(METADATA, 12).brokers} == doors.ports(name)
        doors.change(name, listeners=(doors.block(),))
        doors.wait_open(name)
        client.wait_for_close()
    wait_until(lambda: not listens(before), timeout_s=PATIENCE_S, what="the end of the former port")
    assert metadata(doors.port(name)) == doors.ports(name)
    last = doors.port(name)
    doors.change(name, listeners=())
    wait_until(lambda: not listens(last), timeout_s=PATIENCE_S, what="the end of the last port")


def test_a_deleted_instance_has_no_ports_until_it_is_restored(doors: Doors) -> None:
    name = doors.make()
    port = doors.port(name)
    with RawConnection(HOST, port) as client:
        client.ask(METADATA, 12)
        doors.tell(name, instances.delete)
        client.wait_for_close()
    wait_until(lambda: not listens(port), timeout_s=PATIENCE_S, what="the end of its ports")
    doors.tell(name, instances.restore)
    doors.wait_open(name)
    assert metadata(port) == doors.ports(name)


def test_a_port_that_somebody_has_is_taken_later(doors: Doors) -> None:
    block = doors.block()
    name = unique_name("late")
    with socket.create_server((HOST, block.port)):
        doors.create(name, block)
        other = doors.make()
        assert metadata(doors.port(other)) == doors.ports(other), "the gateways go on"
        told = f"{HOST}:{block.port}"
        if doors.up.mode == "embedded":
            wait_until(lambda: told in doors.up.log_tail(), timeout_s=PATIENCE_S, what="a log line")
    doors.wait_open(name)
    assert metadata(block.port) == doors.ports(name)


# ---- who may connect ----


def is_let_in(port: int, source: str) -> bool:
    try:
        metadata(port, source)
    except (ConnectionEnded, ConnectionResetError, BrokenPipeError):
        return False
    return True


def wait_for(port: int, *, allowed: set[str]) -> None:
    """Returns once exactly these of the sources may connect."""
    wait_until(
        lambda: {source for source in SOURCES if is_let_in(port, source)} == allowed,
        timeout_s=PATIENCE_S,
        what=f"a list that allows {allowed}",
    )


def test_a_list_of_networks_changes_while_clients_are_connected(doors: Doors) -> None:
    name = doors.make()
    port = doors.port(name)
    wait_for(port, allowed=SOURCES)
    with (
        RawConnection(HOST, port, source=ONE) as one,
        RawConnection(HOST, port, source=OTHER) as other,
    ):
        one.ask(METADATA, 12)
        other.ask(METADATA, 12)
        doors.change(name, allowed_networks=(f"{ONE}/32", "2001:db8::/32"))
        other.wait_for_close()
        one.ask(METADATA, 12)
        wait_for(port, allowed={ONE})
        doors.change(name, allowed_networks=())
        one.wait_for_close()
        wait_for(port, allowed=set())
    assert is_let_in(doors.up.port, ONE), "the default instance has no list"
    doors.change(name, allowed_networks=None)
    wait_for(port, allowed=SOURCES)


def test_an_instance_has_so_many_connections_at_each_gateway(doors: Doors) -> None:
    name = doors.make(connections_max=2)
    port = doors.port(name)
    wait_until(lambda: is_let_in(port, ONE), timeout_s=PATIENCE_S, what="a free place")
    with RawConnection(HOST, port) as first, RawConnection(HOST, port) as second:
        first.ask(METADATA, 12)
        second.ask(METADATA, 12)
        assert not is_let_in(port, ONE)
        doors.change(name, connections_max=3)
        wait_until(lambda: is_let_in(port, ONE), timeout_s=PATIENCE_S, what="a higher limit")
        first.ask(METADATA, 12)


# ---- who may write and read a topic ----


def produce_code(port: int, topic: str, source: str) -> int:
    builder = RecordBatchBuilder()
    builder.append(key=None, value=b"v", timestamp_ms=int(time.time() * 1000))
    data = ProduceRequestPartitionProduceData(0, builder.build())
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequestTopicProduceData(name=topic, partition_data=[data])],
    )
    with RawConnection(HOST, port, source=source) as client:
        reply = client.ask(request, 9)
    return int(only(only(reply.responses).partition_responses).error_code)


def fetch_code(client: RawConnection, topic: str) -> int:
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[
            FetchRequestFetchTopic(
                topic=topic,
                partitions=[
                    FetchRequestFetchPartition(
                        partition=0, fetch_offset=0, partition_max_bytes=1 << 20
                    )
                ],
            )
        ],
    )
    return int(only(only(client.ask(request, 12).responses).partitions).error_code)


def test_topics_have_lists_for_writing_and_reading(doors: Doors) -> None:
    name, topic = doors.make(), unique_name("lists")
    admin = AdminClient({"bootstrap.servers": doors.bootstrap(name)})
    new = NewTopic(topic, 1, config={"produce.allowed.networks": f"{ONE}/32"})
    admin.create_topics([new])[topic].result(PATIENCE_S)
    node = max(doors.ports(name))
    assert {produce_code(port, topic, ONE) for port in doors.ports(name)} == {0}
    denied = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert produce_code(node, topic, OTHER) == denied
    with (
        RawConnection(HOST, node, source=ONE) as one,
        RawConnection(HOST, node, source=OTHER) as other,
    ):
        assert (fetch_code(one, topic), fetch_code(other, topic)) == (0, 0)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        for consume, produce, codes in (
            (f"{OTHER}/32", "", (denied, 0)),
            ("none", "none", (denied, denied)),
            ("", f"{HOST}/8", (0, 0)),
        ):
            for config, value in (("consume", consume), ("produce", produce)):
                entry = ConfigEntry(
                    f"{config}.allowed.networks",
                    value,
                    incremental_operation=AlterConfigOpType.SET,
                )
                resource.add_incremental_config(entry)
            admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
            wait_until(
                lambda codes=codes: (fetch_code(one, topic), fetch_code(other, topic)) == codes,
                timeout_s=PATIENCE_S,
                what=f"{consume!r} for reading",
            )
            may_write = 0 if produce != "none" else denied
            assert produce_code(node, topic, OTHER) == may_write
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        shown = admin.describe_configs([resource])[resource].result(PATIENCE_S)
        assert shown["produce.allowed.networks"].value == f"{HOST}/8"
