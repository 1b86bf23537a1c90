"""Real clients that log in by SASL, on a listener beside one that asks for no login."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer

from highwater.kafka.messages.metadata import MetadataRequest
from tests.cluster.runner import HOST, MODES, Up, run
from tests.conformance.topics import unique_name
from tests.support.java_tools import CONFIGS, CONSOLE_CONSUMER, CONSOLE_PRODUCER, java_tool
from tests.support.process import free_port_block
from tests.support.wire import ConnectionEnded, RawConnection

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
PASSWORD = "a, b=c and ü"  # What SCRAM and properties have to escape, and what they need not.
PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """A running cluster, and its ports with logins and without."""

    up: Up
    secure: str

    def set_user(self, name: str, mechanism: str, password: str, directory: Path) -> None:
        file = directory / "password"
        file.write_text(password)
        done = run(
            *("user", "set", name, "--mechanism", mechanism, "--password-file", str(file)),
            *("--data-dir", str(self.up.data_dir)),
        )
        assert done.returncode == 0, done.stderr

    def confluent(self, mechanism: str, user: str, password: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.secure,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }


@pytest.fixture(
    scope="module",
    params=["embedded", pytest.param("combined3", marks=pytest.mark.full)],
)
def doors(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Doors]:
    directory = tmp_path_factory.mktemp("logins")
    port = free_port_block(MODES[request.param][0] + 1)
    listener = "gateway.listeners.secure."
    offered = ", ".join(f'"{name}"' for name in MECHANISMS)
    up = Up(
        request.param,
        directory,
        extra=(
            *("--set", f"{listener}port={port}"),
            *("--set", f"{listener}sasl_mechanisms=[{offered}]"),
        ),
    )
    up.start()
    made = Doors(up=up, secure=f"{HOST}:{port}")
    try:
        for mechanism in MECHANISMS[:2]:
            made.set_user("alice", mechanism, PASSWORD, directory)
        yield made
    finally:
        up.stop()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent(doors: Doors, mechanism: str) -> None:
    topic = unique_name("logins")
    producer = Producer(doors.confluent(mechanism, "alice", PASSWORD))
    producer.produce(topic, b"hello")
    assert producer.flush(PATIENCE_S) == 0
    settings = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(doors.confluent(mechanism, "alice", PASSWORD) | settings)
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_S
    message = None
    while message is None and time.monotonic() < deadline:
        message = consumer.poll(1.0)
    consumer.close()
    assert message is not None
    assert message.error() is None
    assert message.value() == b"hello"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_own_command(doors: Doors, mechanism: str, tmp_path: Path) -> None:
    topic = unique_name("logins")
    file = tmp_path / "client.properties"
    options = ("--bootstrap", doors.secure, "--command-config", str(file))
    for password, code in (("wrong", 1), (PASSWORD, 0)):
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config=Module required username="alice" password="{password}";\n'
        )
        done = run("topic", "create", topic, *options)
        assert done.returncode == code, done.stderr
        assert password not in done.stdout + done.stderr
    assert topic in run("topic", "list", *options).stdout
    without = run("topic", "list", "--bootstrap", doors.secure)
    assert without.returncode == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD)])
def test_confluent_is_refused(doors: Doors, mechanism: str, user: str, password: str) -> None:
    errors: list[KafkaError] = []
    settings = doors.confluent(mechanism, user, password)
    producer = Producer(settings | {"error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.2)
    assert errors[0].code() == KafkaError._AUTHENTICATION
    assert "invalid credentials" in errors[0].str()


def test_a_mechanism_that_is_not_offered(doors: Doors) -> None:
    errors: list[KafkaError] = []
    settings = doors.confluent("OAUTHBEARER", "alice", PASSWORD)
    unsecured = {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice",
    }
    producer = Producer(settings | unsecured | {"error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.2)
    assert "SCRAM-SHA-256" in errors[0].str(), "the answer names what is offered"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(doors: Doors, mechanism: str) -> None:
    login = {
        "bootstrap_servers": doors.secure,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }
    topic = unique_name("logins")
    with KafkaProducer(**login) as producer:
        producer.send(topic, b"hello").get(PATIENCE_S)
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_S * 1000, **login
    )
    assert next(consumer).value == b"hello"
    consumer.close()


def test_without_a_login_there_is_no_answer(doors: Doors) -> None:
    host, _, port = doors.secure.rpartition(":")
    with RawConnection(host, int(port)) as raw, pytest.raises(ConnectionEnded):
        raw.ask(MetadataRequest(), 9)
    with RawConnection(HOST, doors.up.port) as raw:
        assert raw.ask(MetadataRequest(), 9).brokers


def test_a_changed_password_and_a_removed_user(doors: Doors, tmp_path: Path) -> None:
    doors.set_user("bob", "SCRAM-SHA-256", "first", tmp_path)
    assert _can_log_in(doors, "bob", "first")
    doors.set_user("bob", "SCRAM-SHA-256", "second", tmp_path)
    assert not _can_log_in(doors, "bob", "first")
    assert _can_log_in(doors, "bob", "second")
    done = run("user", "delete", "bob", "--data-dir", str(doors.up.data_dir))
    assert done.returncode == 0, done.stderr
    assert not _can_log_in(doors, "bob", "second")


def _can_log_in(doors: Doors, user: str, password: str) -> bool:
    errors: list[KafkaError] = []
    settings = doors.confluent("SCRAM-SHA-256", user, password)
    producer = Producer(settings | {"error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        producer.poll(0)
        if errors:
            return False
        with contextlib.suppress(KafkaException):  # No answer yet.
            if producer.list_topics(timeout=1).brokers:
                return True
    raise AssertionError("neither a login nor a refusal")


@pytest.mark.java
def test_java_logs_in_as_a_user_that_its_tool_has_made(doors: Doors, tmp_path: Path) -> None:
    java_tool(
        CONFIGS,
        *("--bootstrap-server", doors.up.bootstrap, "--alter", "--entity-type", "users"),
        *("--entity-name", "java", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=tea]"),
    )
    topic = unique_name("logins")
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="java" password="tea";\n'
    )
    server = ("--bootstrap-server", doors.secure, "--topic", topic)
    java_tool(CONSOLE_PRODUCER, *server, "--command-config", str(properties), stdin="one\ntwo\n")
    read = java_tool(
        *(CONSOLE_CONSUMER, *server, "--command-config", str(properties)),
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"),
    )
    assert read.stdout.splitlines() == ["one", "two"]
    properties.write_text(properties.read_text().replace("tea", "coffee"))
    refused = java_tool(
        *(CONSOLE_CONSUMER, *server, "--command-config", str(properties)),
        *("--from-beginning", "--max-messages", "1", "--timeout-ms", "30000"),
        check=False,
    )
    assert (
        "invalid credentials with SASL mechanism SCRAM-SHA-512" in refused.stdout + refused.stderr
    )
