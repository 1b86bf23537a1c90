"""Client quotas hold real clients to their rates, and let them go on open connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, ThrottleEvent
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as KafkaPythonTopic

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
)
from highwater.kafka.messages.api_versions import ApiVersionsRequest
from highwater.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from highwater.kafka.messages.metadata import MetadataRequest
from highwater.model.config_type import ConfigResourceType
from tests.cluster.runner import HOST, Up
from tests.conformance.topics import unique_name
from tests.support.java_tools import CONFIGS, java_tool
from tests.support.wire import ConnectionEnded, RawConnection, only

WINDOWS = 2
"""Fewer than Kafka's 11: a client that fills its windows at once rests until they have passed, and the
rate of a few seconds would tell little.
"""
LIMIT = 1_000_000
RECORD = bytes(10_000)
MEASURED_S = 8.0
TOLERANCE = 0.2
PATIENCE_S = 40.0
FREE_RATE = 4 * LIMIT
"""What a client without a quota reaches on any machine."""


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("combined3", marks=pytest.mark.full)]
)
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    made = Up(
        request.param,
        tmp_path_factory.mktemp("quotas"),
        extra=("--set", f"gateway.quota_window_num={WINDOWS}"),
    )
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def operator(up: Up) -> Iterator[RawConnection]:
    """A connection that no quota of these tests is for."""
    with RawConnection.to(up.bootstrap) as connection:
        connection.ask(MetadataRequest([]), 9)
        yield connection


def set_quota(operator: RawConnection, kind: str, name: str, key: str, value: float | None) -> None:
    """None removes it."""
    entity = [AlterClientQuotasRequestEntityData(kind, name)]
    change = AlterClientQuotasRequestOpData(key, value or 0.0, remove=value is None)
    answer = operator.ask(
        AlterClientQuotasRequest([AlterClientQuotasRequestEntryData(entity, [change])]), 1
    )
    assert only(answer.entries).error_code == 0, only(answer.entries).error_message


def new_topic(up: Up, partitions: int = 1) -> str:
    name = unique_name("quotas")
    admin = AdminClient({"bootstrap.servers": up.bootstrap})
    admin.create_topics([NewTopic(name, partitions)])[name].result(PATIENCE_S)
    return name


class Traffic:
    """Counts bytes, and how long the client was told to wait."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.throttle_s: list[float] = []

    def throttled(self, event: ThrottleEvent) -> None:
        if event.throttle_time:
            self.throttle_s.append(event.throttle_time)

    def rate_during(self, go_on: Callable[[], None], seconds: float) -> float:
        begun, before = time.monotonic(), self.nbytes
        while time.monotonic() < begun + seconds:
            go_on()
        return (self.nbytes - before) / (time.monotonic() - begun)

    def until_throttled(self, go_on: Callable[[], None]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.throttle_s:
            go_on()
            assert time.monotonic() < deadline, "nobody was throttled"
        self.rate_during(go_on, 2 * WINDOWS)  # What came before was free.

    def until_free(self, go_on: Callable[[], None]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.rate_during(go_on, 1.0) < FREE_RATE:
            assert time.monotonic() < deadline, "the quota is gone, and the client still slow"


def producing(up: Up, topic: str, client_id: str) -> tuple[Traffic, Callable[[], None], Producer]:
    """A producer, which sends some more with each call."""
    traffic = Traffic()
    producer = Producer(
        {
            "bootstrap.servers": up.bootstrap,
            "client.id": client_id,
            "throttle_cb": traffic.throttled,
            "linger.ms": 5,
            # As Java's client has. What is in flight when a client is throttled comes on top.
            "max.in.flight.requests.per.connection": 5,
            "batch.size": 40_000,
            "queue.buffering.max.kbytes": 1_000,
            "message.timeout.ms": 60_000,
        }
    )

    def delivered(error: KafkaError | None, _message: object) -> None:
        assert error is None
        traffic.nbytes += len(RECORD)

    def go_on() -> None:
        try:
            producer.produce(topic, RECORD, on_delivery=delivered)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)

    return traffic, go_on, producer


def test_a_producer_keeps_to_its_rate_and_is_free_again(up: Up, operator: RawConnection) -> None:
    topic, client_id = new_topic(up), unique_name("producer")
    set_quota(operator, "client-id", client_id, "producer_byte_rate", LIMIT)
    traffic, go_on, producer = producing(up, topic, client_id)
    traffic.until_throttled(go_on)
    assert traffic.rate_during(go_on, MEASURED_S) == pytest.approx(LIMIT, rel=TOLERANCE)
    set_quota(operator, "client-id", client_id, "producer_byte_rate", None)
    traffic.until_free(go_on)
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.full
def test_a_producer_that_is_at_work_gets_a_quota(up: Up, operator: RawConnection) -> None:
    topic, client_id = new_topic(up), unique_name("producer")
    traffic, go_on, producer = producing(up, topic, client_id)
    traffic.until_free(go_on)
    assert traffic.throttle_s == []
    set_quota(operator, "client-id", client_id, "producer_byte_rate", LIMIT)
    traffic.until_throttled(go_on)
    assert traffic.rate_during(go_on, MEASURED_S) == pytest.approx(LIMIT, rel=TOLERANCE)
    set_quota(operator, "client-id", client_id, "producer_byte_rate", None)
    producer.flush(PATIENCE_S)


@pytest.mark.full
def test_a_consumer_keeps_to_its_rate_and_is_free_again(up: Up, operator: RawConnection) -> None:
    topic, client_id = new_topic(up), unique_name("consumer")
    written, write, producer = producing(up, topic, unique_name("filler"))
    while written.nbytes < 60 * LIMIT:
        write()
    assert producer.flush(PATIENCE_S) == 0
    set_quota(operator, "client-id", client_id, "consumer_byte_rate", LIMIT)
    traffic = Traffic()
    consumer = Consumer(
        {
            "bootstrap.servers": up.bootstrap,
            "client.id": client_id,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "throttle_cb": traffic.throttled,
            # Otherwise the client reads ahead, and what it hands out says little of its rate.
            "queued.max.messages.kbytes": 200,
            "fetch.message.max.bytes": 100_000,
        }
    )
    consumer.subscribe([topic])

    def go_on() -> None:
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None
            traffic.nbytes += len(message.value())

    traffic.until_throttled(go_on)
    assert traffic.rate_during(go_on, MEASURED_S) == pytest.approx(LIMIT, rel=TOLERANCE)
    set_quota(operator, "client-id", client_id, "consumer_byte_rate", None)
    traffic.until_free(go_on)
    consumer.close()


def test_clients_that_create_too_many_partitions_are_told(up: Up, operator: RawConnection) -> None:
    client_id = unique_name("maker")
    set_quota(operator, "client-id", client_id, "controller_mutation_rate", 0.5)

    admins: list[Any] = []

    def create(partitions: int) -> int:
        """The code of the outcome. Each call has connections of its own, as the last ones are muted."""
        admin = KafkaAdminClient(bootstrap_servers=up.bootstrap, client_id=client_id)
        wish = KafkaPythonTopic(unique_name("quotas"), partitions, 1)
        admins.append(admin)
        answer = admin.create_topics([wish], raise_errors=False)
        return int(only(answer["topics"])["error_code"])

    assert create(20) == 0, "nothing is owed yet"
    assert create(1) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    set_quota(operator, "client-id", client_id, "controller_mutation_rate", None)
    assert create(1) == 0
    for admin in admins:
        admin.close()


def test_the_time_of_requests_is_limited(up: Up, operator: RawConnection) -> None:
    topic, client_id = new_topic(up), unique_name("asker")
    set_quota(operator, "client-id", client_id, "request_percentage", 0.05)
    traffic, go_on, producer = producing(up, topic, client_id)
    traffic.until_throttled(go_on)
    assert max(traffic.throttle_s) <= 1.0
    set_quota(operator, "client-id", client_id, "request_percentage", None)
    assert producer.flush(PATIENCE_S) == 0


def test_an_address_may_open_so_many_connections(up: Up, operator: RawConnection) -> None:
    set_quota(operator, "ip", "127.0.0.1", "connection_creation_rate", 1)
    ended_after: list[float] = []
    served = []

    def connect() -> None:
        with RawConnection.to(up.bootstrap) as connection:
            begun = time.monotonic()
            try:
                connection.ask(ApiVersionsRequest("test", "1"), 3)
                served.append(True)
            except ConnectionEnded:
                ended_after.append(time.monotonic() - begun)

    threads = [threading.Thread(target=connect) for _ in range(10)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    finally:
        set_quota(operator, "ip", "127.0.0.1", "connection_creation_rate", None)
    assert 1 <= len(served) <= WINDOWS + 1
    assert len(served) + len(ended_after) == len(threads)
    assert min(ended_after) > 0.05, "they wait before they are closed"
    connect()
    assert served[-1]
    assert len(served) + len(ended_after) == len(threads) + 1


def set_brokers(operator: RawConnection, name: str, value: str | None) -> None:
    """Sets a config of all brokers, or removes it."""
    config = IncrementalAlterConfigsRequestAlterableConfig(name, 0 if value else 1, value)
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        ConfigResourceType.BROKER, "", [config]
    )
    answer = operator.ask(IncrementalAlterConfigsRequest([resource]), 1)
    assert only(answer.responses).error_code == 0, only(answer.responses).error_message


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
def test_connections_wait_for_the_rate_of_a_broker_or_a_listener(
    up: Up, operator: RawConnection, prefix: str
) -> None:
    name = f"{prefix}max.connection.creation.rate"
    served: list[float] = []

    def connect() -> None:
        begun = time.monotonic()
        with RawConnection.to(up.bootstrap) as connection:
            connection.ask(ApiVersionsRequest("test", "1"), 3)
            served.append(time.monotonic() - begun)

    set_brokers(operator, name, "2")
    threads = [threading.Thread(target=connect) for _ in range(8)]
    try:
        for thread in threads:
            thread.start()
        operator.ask(ApiVersionsRequest("test", "1"), 3)
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(served) == len(threads), "none is refused"
        assert max(served) > 1.0
    finally:
        set_brokers(operator, name, None)
    begun = time.monotonic()
    for _ in range(8):
        connect()
    assert time.monotonic() - begun < 5.0


def test_an_address_may_have_so_many_connections(up: Up, operator: RawConnection) -> None:
    name = "max.connections.per.ip.overrides"
    set_brokers(operator, name, "127.0.0.9:1")
    port = up.port
    try:
        with RawConnection(HOST, port, source="127.0.0.9") as one:
            one.ask(ApiVersionsRequest("test", "1"), 3)
            with (
                pytest.raises(ConnectionEnded),
                RawConnection(HOST, port, source="127.0.0.9") as two,
            ):
                two.ask(ApiVersionsRequest("test", "1"), 3)
            with RawConnection(HOST, port, source="127.0.0.8") as other:
                other.ask(ApiVersionsRequest("test", "1"), 3)
    finally:
        set_brokers(operator, name, None)


@pytest.mark.java
def test_kafkas_tool_sets_and_shows_limits_of_listeners(up: Up) -> None:
    name = "listener.name.plaintext.max.connections"
    named: tuple[Any, ...] = ("--bootstrap-server", up.bootstrap, "--entity-type", "brokers")
    java_tool(CONFIGS, *named, "--entity-default", "--alter", "--add-config", f"{name}=500")
    try:
        shown = java_tool(CONFIGS, *named, "--entity-default", "--describe").stdout
        assert f"{name}=500" in shown
        node = min(AdminClient({"bootstrap.servers": up.bootstrap}).list_topics(timeout=30).brokers)
        shown = java_tool(CONFIGS, *named, "--entity-name", str(node), "--describe", "--all").stdout
        assert f"{name}=500" in shown
    finally:
        java_tool(CONFIGS, *named, "--entity-default", "--alter", "--delete-config", name)


@pytest.mark.java
def test_quotas_of_kafkas_tool(up: Up) -> None:
    topic, client_id = new_topic(up), unique_name("producer")
    named: tuple[Any, ...] = ("--bootstrap-server", up.bootstrap, "--alter")
    # Nobody has logged in, so everybody is the user ANONYMOUS.
    named = (*named, "--entity-type", "users", "--entity-name", "ANONYMOUS")
    named = (*named, "--entity-type", "clients", "--entity-name", client_id)
    java_tool(CONFIGS, *named, "--add-config", f"producer_byte_rate={LIMIT}")
    traffic, go_on, producer = producing(up, topic, client_id)
    traffic.until_throttled(go_on)
    assert traffic.rate_during(go_on, MEASURED_S) == pytest.approx(LIMIT, rel=TOLERANCE)
    java_tool(CONFIGS, *named, "--delete-config", "producer_byte_rate")
    traffic.until_free(go_on)
    assert producer.flush(PATIENCE_S) == 0
