"""Real clients that log in by a token of an issuer whose keys the gateways read from a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from tests.cluster.runner import HOST, MODES, Up
from tests.cluster.test_instance_doors import listens
from tests.conformance.topics import unique_name
from tests.support import instances
from tests.support.java_tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER, java_tool
from tests.support.process import free_port_block, wait_until
from tests.support.tokens import Issuer

PATIENCE_S = 30.0
SHORT_S = 4.0
AUDIENCE = "highwater"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """A running cluster, its port with logins, and who issues tokens."""

    up: Up
    secure: str
    issuer: Issuer

    def token(self, user: str = "alice", *, good_s: float = 300) -> str:
        return self.issuer.token(user, good_s=good_s, aud=AUDIENCE)

    def confluent(self, token: str, good_s: float = 300) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.secure,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token, time.time() + good_s),
        }


@pytest.fixture(
    scope="module",
    params=["embedded", pytest.param("combined3", marks=pytest.mark.full)],
)
def doors(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Doors]:
    directory = tmp_path_factory.mktemp("tokens")
    port = free_port_block(MODES[request.param][0] + 1)
    issuer = Issuer()
    keys = directory / "keys.json"
    keys.write_bytes(issuer.document())
    listener = "gateway.listeners.secure."
    up = Up(
        request.param,
        directory,
        extra=(
            *("--set", f"{listener}port={port}"),
            *("--set", f'{listener}sasl_mechanisms=["OAUTHBEARER"]'),
            *("--set", f"gateway.oauth.jwks_url={keys.as_uri()}"),
            *("--set", f'gateway.oauth.audiences=["{AUDIENCE}"]'),
            *("--set", "gateway.oauth.skew_s=0"),
        ),
    )
    up.start()
    try:
        yield Doors(up=up, secure=f"{HOST}:{port}", issuer=issuer)
    finally:
        up.stop()


def test_confluent(doors: Doors) -> None:
    topic = unique_name("tokens")
    producer = Producer(doors.confluent(doors.token()))
    producer.produce(topic, b"hello")
    assert producer.flush(PATIENCE_S) == 0
    settings = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(doors.confluent(doors.token()) | settings)
    consumer.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_S
    message = None
    while message is None and time.monotonic() < deadline:
        message = consumer.poll(1.0)
    consumer.close()
    assert message is not None
    assert message.value() == b"hello"


def test_a_token_of_one_tenant_opens_no_port_of_another(doors: Doors) -> None:
    """Both have ports on the same listener, and so the same issuer and keys."""
    block = MODES[doors.up.mode][0] + 1
    port = free_port_block(3 * block)
    names = ("shop", "bank", "bare")
    ports = {name: port + number * block for number, name in enumerate(names)}
    for name, own in ports.items():
        state = InstanceState(
            instance=InstanceId(name),
            listeners=(InstanceListener(listener="secure", port=own),),
            token_audience="" if name == "bare" else name,
        )
        instances.at(doors.up.data_dir, instances.create, state)
    for own in ports.values():
        wait_until(lambda p=own: listens(p), timeout_s=PATIENCE_S, what=f"port {own}")

    def outcome(name: str, audience: str) -> int | None:
        """The error that a client of the instance's port gets by a token for that audience."""
        settings = doors.confluent(doors.issuer.token(aud=audience))
        errors: list[KafkaError] = []
        settings |= {"bootstrap.servers": f"{HOST}:{ports[name]}", "error_cb": errors.append}
        producer = Producer(settings)
        sent: list[Any] = []
        producer.produce("orders", b"mine", on_delivery=lambda *answer: sent.append(answer))
        deadline = time.monotonic() + PATIENCE_S
        while not errors and not sent and time.monotonic() < deadline:
            producer.poll(0.2)
        return errors[0].code() if errors else None

    assert outcome("shop", "shop") is None
    assert outcome("bank", "bank") is None
    for name, audience in (
        ("bank", "shop"),
        ("shop", "bank"),
        ("shop", AUDIENCE),
        ("bare", "shop"),
    ):
        assert outcome(name, audience) == KafkaError._AUTHENTICATION, (name, audience)


def test_refused_tokens(doors: Doors) -> None:
    stranger = Issuer(doors.issuer.kid)
    for token in (
        stranger.token(aud=AUDIENCE),
        doors.issuer.token(aud="somebody else"),
        doors.issuer.token(),
        doors.token(good_s=-1),
    ):
        errors: list[KafkaError] = []
        producer = Producer(doors.confluent(token) | {"error_cb": errors.append})
        deadline = time.monotonic() + PATIENCE_S
        while not errors and time.monotonic() < deadline:
            producer.poll(0.2)
        assert errors[0].code() == KafkaError._AUTHENTICATION


def test_a_client_with_short_tokens_logs_in_again_and_goes_on(doors: Doors) -> None:
    """Over three lifetimes of a token, on connections that stay."""
    given: list[str] = []
    errors: list[KafkaError] = []

    def next_token(_: str) -> tuple[str, float]:
        given.append(doors.token(good_s=SHORT_S))
        # It asks for the next one long before the end of its login, for which it needs a fresh token.
        return given[-1], time.time() + SHORT_S / 2

    topic = unique_name("tokens")
    settings = doors.confluent("") | {"oauth_cb": next_token, "error_cb": errors.append}
    producer = Producer(settings)
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    end = time.monotonic() + 3 * SHORT_S
    while time.monotonic() < end:
        producer.produce(topic, b"hello", on_delivery=delivered)
        producer.poll(0.1)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed
    assert len(given) > 2
    assert not [error for error in errors if error.code() == KafkaError._AUTHENTICATION]


def test_kafka_python(doors: Doors) -> None:
    class Provider(AbstractTokenProvider):  # type: ignore[misc] # Has no types.
        def token(self) -> str:
            return doors.token()

    with KafkaProducer(
        bootstrap_servers=doors.secure,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    ) as producer:
        sent = producer.send(unique_name("tokens"), b"hello").get(PATIENCE_S)
        assert sent.offset == 0


@pytest.mark.java
def test_java(doors: Doors, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(doors.token("java"))
    login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={login}Module required;\n"
        f"sasl.login.callback.handler.class={login}CallbackHandler\n"
        "sasl.oauthbearer.jwt.retriever.class="
        "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever\n"
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}\n"
    )
    allowed = (
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={file}",
    )
    topic = unique_name("tokens")
    server = ("--bootstrap-server", doors.secure, "--topic", topic)
    configs = ("--command-config", str(properties))
    java_tool(CONSOLE_PRODUCER, *server, *configs, stdin="one\ntwo\n", jvm_options=allowed)
    read = java_tool(
        *(CONSOLE_CONSUMER, *server, *configs),
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"),
        jvm_options=allowed,
    )
    assert read.stdout.splitlines() == ["one", "two"]
