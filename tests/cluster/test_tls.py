"""Real clients by TLS: what they write and read, large fetches too, and who they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.cluster.runner import HOST, MODES, Up, run
from tests.conformance.topics import unique_name
from tests.support.certificates import Certificate, make_certificate
from tests.support.java_tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER, java_tool
from tests.support.process import free_port_block

PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """A cluster with a listener for TLS, and one that also asks for a login."""

    up: Up
    bootstrap: str
    with_login: str
    certificate: Certificate

    @property
    def confluent(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificate[0]),
        }


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("combined3", marks=pytest.mark.full)]
)
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    certificate = make_certificate(directory)
    block = MODES[request.param][0] + 1
    port = free_port_block(2 * block)
    settings: list[str] = []
    for number, name in enumerate(("secure", "login")):
        listener = f"gateway.listeners.{name}"
        settings += (
            f"{listener}.port={port + number * block}",
            f"{listener}.tls.cert_file={certificate[0]}",
            f"{listener}.tls.key_file={certificate[1]}",
        )
    settings.append('gateway.listeners.login.sasl_mechanisms=["SCRAM-SHA-512"]')
    extra = tuple(part for setting in settings for part in ("--set", setting))
    up = Up(request.param, directory, extra=extra)
    up.start()
    try:
        yield Secured(
            up=up,
            bootstrap=f"{HOST}:{port}",
            with_login=f"{HOST}:{port + block}",
            certificate=certificate,
        )
    finally:
        up.stop()


def read(settings: dict[str, Any], topic: str, count: int) -> list[bytes]:
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def test_confluent_writes_and_reads_records_of_all_sizes(secured: Secured) -> None:
    topic = unique_name("tls")
    values = [bytes([number]) * 10**number for number in range(6)] * 20
    producer = Producer(secured.confluent)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    assert sorted(read(secured.confluent, topic, len(values))) == sorted(values)


def test_a_client_that_does_not_trust_the_certificate_goes_away(secured: Secured) -> None:
    errors: list[KafkaError] = []
    settings = {key: value for key, value in secured.confluent.items() if "ca" not in key}
    producer = Producer(settings | {"error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.2)
    assert "certificate verify failed" in errors[0].str()


def test_a_login_within_tls(secured: Secured, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    done = run(
        *("user", "set", "alice", "--password-file", str(password)),
        *("--data-dir", str(secured.up.data_dir)),
    )
    assert done.returncode == 0, done.stderr
    login = secured.confluent | {
        "bootstrap.servers": secured.with_login,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    topic = unique_name("tls")
    producer = Producer(login)
    producer.produce(topic, b"hello")
    assert producer.flush(PATIENCE_S) == 0
    assert read(login, topic, 1) == [b"hello"]


def test_kafka_python(secured: Secured) -> None:
    topic = unique_name("tls")
    settings = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(secured.certificate[0]),
    }
    with KafkaProducer(**settings) as producer:
        producer.send(topic, b"x" * 500_000).get(PATIENCE_S)
    consumer = KafkaConsumer(
        topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
        max_partition_fetch_bytes=1 << 20,
        **settings,
    )
    assert next(consumer).value == b"x" * 500_000
    consumer.close()


@pytest.mark.java
def test_java(secured: Secured, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={secured.certificate[0]}\n"
    )
    topic = unique_name("tls")
    server = ("--bootstrap-server", secured.bootstrap, "--topic", topic)
    config = ("--command-config", str(properties))
    java_tool(CONSOLE_PRODUCER, *server, *config, stdin="one\ntwo\n")
    found = java_tool(
        *(CONSOLE_CONSUMER, *server, *config),
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"),
    )
    assert found.stdout.splitlines() == ["one", "two"]
