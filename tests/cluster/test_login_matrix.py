"""Every way to connect, with every way to log in, by three clients: they write, and read in a group."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector

from tests.cluster.secure_listeners import (
    PASSWORD,
    PATIENCE_S,
    USER,
    WAYS,
    SecureCluster,
    Way,
    Wire,
)
from tests.support.certificates import Certificate
from tests.support.java_tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER, java_tool

VALUES = [b"one", b"two"]
REFUSED_S = 10.0
Speaks: TypeAlias = Callable[[SecureCluster, Way, Path], None]
"""A client that connects, writes and reads; the directory is for its files."""


def confluent(secure: SecureCluster, way: Way) -> dict[str, Any]:
    settings = secure.librdkafka(way)
    if way.mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (secure.token(), time.time() + 600)
    return settings


def confluent_speaks(secure: SecureCluster, way: Way, _: Path) -> None:
    topic = secure.new_topic(way, "matrix")
    settings = confluent(secure, way)
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None
            found.append(message.value())
    consumer.close()
    assert found == VALUES


def kafka_python(secure: SecureCluster, way: Way, shown: Certificate | None) -> dict[str, Any]:
    class Provider(AbstractTokenProvider):  # type: ignore[misc] # Has no types.
        def token(self) -> str:
            return secure.token()

    settings: dict[str, Any] = {
        "bootstrap_servers": secure.bootstrap(way),
        "security_protocol": way.protocol,
    }
    if way.wire is not Wire.PLAINTEXT:
        settings["ssl_cafile"] = str(secure.authority.certificate)
    if shown is not None:
        settings |= {"ssl_certfile": str(shown[0]), "ssl_keyfile": str(shown[1])}
    if way.mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Provider()
    elif way.mechanism is not None:
        settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    if way.mechanism is not None:
        settings["sasl_mechanism"] = way.mechanism
    return settings


def kafka_python_speaks(secure: SecureCluster, way: Way, _: Path) -> None:
    topic = secure.new_topic(way, "matrix")
    settings = kafka_python(secure, way, secure.client_certificate(way))
    with KafkaProducer(**settings) as producer:
        for value in VALUES:
            producer.send(topic, value).get(PATIENCE_S)
    consumer = KafkaConsumer(
        topic,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
        **settings,
    )
    found = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert found == VALUES


def java(secure: SecureCluster, way: Way, shown: Certificate | None, directory: Path) -> str:
    """The file of a `--command-config`."""
    security = "org.apache.kafka.common.security"
    lines = {"security.protocol": way.protocol}
    if way.wire is not Wire.PLAINTEXT:
        lines |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(secure.authority.certificate),
        }
    if shown is not None:
        both = directory / "keystore.pem"
        both.write_bytes(b"".join(file.read_bytes() for file in reversed(shown)))
        lines |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    if way.mechanism is not None:
        lines["sasl.mechanism"] = way.mechanism
    login = f'required username="{USER}" password="{PASSWORD}";'
    if way.mechanism == "PLAIN":
        lines["sasl.jaas.config"] = f"{security}.plain.PlainLoginModule {login}"
    elif way.mechanism == "OAUTHBEARER":
        token = directory / "token"
        token.write_text(secure.token())
        bearer = f"{security}.oauthbearer.OAuthBearerLogin"
        lines |= {
            "sasl.jaas.config": f"{bearer}Module required;",
            "sasl.login.callback.handler.class": f"{bearer}CallbackHandler",
            "sasl.oauthbearer.jwt.retriever.class": f"{security}.oauthbearer.FileJwtRetriever",
            "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        }
    elif way.mechanism is not None:
        lines["sasl.jaas.config"] = f"{security}.scram.ScramLoginModule {login}"
    file = directory / "client.properties"
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    file.write_bytes(text.encode("ascii", "backslashreplace").replace(b"\\x", b"\\u00"))
    return str(file)


def java_allows(directory: Path) -> tuple[str, ...]:
    """Where it may read tokens from."""
    token = directory / "token"
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    return (f"{allowed}.urls={token.as_uri()}", f"{allowed}.files={token}")


def java_speaks(secure: SecureCluster, way: Way, directory: Path) -> None:
    topic = secure.new_topic(way, "matrix")
    config = java(secure, way, secure.client_certificate(way), directory)
    common = ("--bootstrap-server", secure.bootstrap(way), "--topic", topic)
    configured = ("--command-config", config)
    allowed = java_allows(directory)
    lines = "".join(f"{value.decode()}\n" for value in VALUES)
    java_tool(CONSOLE_PRODUCER, *common, *configured, stdin=lines, jvm_options=allowed)
    found = java_tool(
        *(CONSOLE_CONSUMER, *common, *configured, "--group", topic),
        *("--from-beginning", "--max-messages", str(len(VALUES)), "--timeout-ms", "60000"),
        jvm_options=allowed,
    )
    assert found.stdout == lines


QUICK = {
    (kafka_python_speaks, Way(wire=Wire.TLS12, mechanism="OAUTHBEARER")),
    (confluent_speaks, Way(wire=Wire.MUTUAL)),
    (confluent_speaks, Way(wire=Wire.MUTUAL, mechanism="SCRAM-SHA-512")),
}
"""Those that `make test` has; test_logins.py, test_tls.py and test_token_logins.py have more."""


def _cell(speaks: Speaks, way: Way) -> Any:
    marks = [] if (speaks, way) in QUICK else [pytest.mark.full]
    if speaks is java_speaks:
        marks.append(pytest.mark.java)
    return pytest.param(speaks, way, id=f"{speaks.__name__}-{way}", marks=marks)


@pytest.mark.parametrize(
    ("speaks", "way"),
    [
        _cell(speaks, way)
        for speaks in (confluent_speaks, kafka_python_speaks, java_speaks)
        for way in WAYS
    ],
)
def test_a_client_writes_and_reads(
    secure: SecureCluster, speaks: Speaks, way: Way, tmp_path: Path
) -> None:
    speaks(secure, way, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("mechanism", [None, "SCRAM-SHA-256"])
@pytest.mark.parametrize("shows", [False, True], ids=["no certificate", "a stranger's"])
def test_confluent_without_a_certificate_that_is_trusted(
    secure: SecureCluster, mechanism: str | None, shows: bool
) -> None:
    way = Way(wire=Wire.MUTUAL, mechanism=mechanism)
    settings = {
        name: value
        for name, value in confluent(secure, way).items()
        if not name.startswith(("ssl.certificate", "ssl.key"))
    }
    if shows:
        cert, key = secure.stranger
        settings |= {"ssl.certificate.location": str(cert), "ssl.key.location": str(key)}
    errors: list[KafkaError] = []
    producer = Producer(settings | {"error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.2)
    # A handshake of TLS 1.3 is over for the client before the server has looked at its certificate.
    assert errors[0].code() in {
        KafkaError._SSL,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    }


@pytest.mark.full
@pytest.mark.parametrize("shows", [False, True], ids=["no certificate", "a stranger's"])
def test_kafka_python_without_a_certificate_that_is_trusted(
    secure: SecureCluster, shows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = Way(wire=Wire.MUTUAL)
    settings = kafka_python(secure, way, secure.stranger if shows else None)
    loops: list[NetworkSelector] = []
    make = NetworkSelector.__init__

    def made(loop: NetworkSelector, **settings: Any) -> None:
        make(loop, **settings)
        loops.append(loop)

    monkeypatch.setattr(NetworkSelector, "__init__", made)
    with pytest.raises(KafkaPythonError):
        KafkaProducer(bootstrap_timeout_ms=REFUSED_S * 1000, **settings)
    for loop in loops:
        loop.close()
    with warnings.catch_warnings(category=ResourceWarning, action="ignore"):
        gc.collect()  # A producer that could not be made leaves its thread and sockets.


@pytest.mark.full
@pytest.mark.java
@pytest.mark.parametrize("shows", [False, True], ids=["no certificate", "a stranger's"])
def test_java_without_a_certificate_that_is_trusted(
    secure: SecureCluster, shows: bool, tmp_path: Path
) -> None:
    way = Way(wire=Wire.MUTUAL)
    config = java(secure, way, secure.stranger if shows else None, tmp_path)
    done = java_tool(
        *(CONSOLE_CONSUMER, "--bootstrap-server", secure.bootstrap(way), "--topic", "any"),
        *("--command-config", config, "--max-messages", "1", "--timeout-ms", "20000"),
        check=False,
    )
    # Not by the exit code: this tool's is 0 after any error while it reads.
    assert "SslAuthenticationException" in done.stdout + done.stderr
