"""Clients of other languages by TLS and with logins: they write, read, join a group, and are refused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.secure_listeners import (
    MECHANISMS,
    PASSWORD,
    PATIENCE_S,
    USER,
    WAYS,
    SecureCluster,
    Way,
    Wire,
)
from tests.conformance.clients.driver_client import DriverClient
from tests.conformance.clients.go_drivers import FRANZ_GO, SARAMA
from tests.conformance.clients.line_process import ProgramError
from tests.conformance.clients.node_drivers import KAFKAJS
from tests.conformance.messages import Message
from tests.support.certificates import Authority, Certificate
from tests.support.process import wait_until

pytestmark = pytest.mark.clients

CLIENTS = (FRANZ_GO, SARAMA, KAFKAJS)
VALUES = [f"message {number}".encode() for number in range(10)]


def security(
    secure: SecureCluster,
    way: Way,
    *,
    password: str = PASSWORD,
    token: str | None = None,
    trusts: Authority | None = None,
    shown: Certificate | None = None,
) -> dict[str, Any]:
    """The object that drivers take."""
    told: dict[str, Any] = {}
    shown = shown or secure.client_certificate(way)
    if way.wire is not Wire.PLAINTEXT:
        told["tls"] = {"ca": str((trusts or secure.authority).certificate)}
        if shown is not None:
            told["tls"] |= {"cert": str(shown[0]), "key": str(shown[1])}
    if way.mechanism is not None:
        told["mechanism"] = way.mechanism
    if way.mechanism == "OAUTHBEARER":
        told["token"] = secure.token() if token is None else token
    elif way.mechanism is not None:
        told |= {"user": USER, "password": password}
    return told


QUICK = {
    (FRANZ_GO, Way(wire=Wire.TLS13, mechanism="SCRAM-SHA-256")),
    (SARAMA, Way(wire=Wire.MUTUAL, mechanism="SCRAM-SHA-512")),
}
"""Those that `make test` has."""


def _cells() -> Iterator[Any]:
    for client in CLIENTS:
        for way in WAYS:
            # Who reads by KafkaJS without a group does it in one of a name that nobody may use.
            if way.is_anonymous and (client is KAFKAJS or way.wire is Wire.PLAINTEXT):
                continue
            marks = [] if (client, way) in QUICK else [pytest.mark.full]
            yield pytest.param(client, way, id=f"{client.name}-{way}", marks=marks)


@pytest.mark.parametrize(("client", "way"), list(_cells()))
def test_a_client_writes_reads_and_joins_a_group(
    secure: SecureCluster, client: DriverClient, way: Way
) -> None:
    client = client.secured(security(secure, way))
    bootstrap, topic = secure.bootstrap(way), secure.new_topic(way, "drivers")
    client.produce(bootstrap, topic, [Message(key=b"k", value=value) for value in VALUES])
    stored = client.consume(bootstrap, topic, partitions=1, count=len(VALUES))
    assert [record.message.value for record in stored] == VALUES
    with contextlib.closing(client.join(bootstrap, topic, topic)) as member:
        wait_until(
            lambda: len(member.received()) == len(VALUES), timeout_s=PATIENCE_S, what="all records"
        )
        member.commit()


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> DriverClient:
    found: DriverClient = request.param
    return found


def refused(secure: SecureCluster, client: DriverClient, way: Way, told: dict[str, Any]) -> str:
    """What it says of that."""
    # KafkaJS looks for no version, and its producer connects before it looks at what it has to send.
    nothing: dict[str, Any] = {"topic": "any", "codec": "none", "acks": -1, "messages": []}
    command = "produce" if client.name == KAFKAJS.name else "version"
    with pytest.raises(ProgramError) as raised:
        client.secured(told).run(command, secure.bootstrap(way), nothing)
    return raised.value.stderr


@pytest.mark.full
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_or_token(
    secure: SecureCluster, client: DriverClient, mechanism: str
) -> None:
    way = Way(wire=Wire.TLS13, mechanism=mechanism)
    header, claims, signature = secure.token().split(".")
    forged = ".".join((header, claims, signature[::-1]))
    told = security(secure, way, password="wrong", token=forged)
    # KafkaJS does not read the answer to a token: it goes on, and its connection is closed.
    unread = client.name == KAFKAJS.name and mechanism == "OAUTHBEARER"
    assert ("closed" if unread else "auth") in refused(secure, client, way, told).lower()


@pytest.mark.full
def test_a_server_that_is_not_trusted(secure: SecureCluster, client: DriverClient) -> None:
    way = Way(wire=Wire.TLS13, mechanism="SCRAM-SHA-512")
    told = security(secure, way, trusts=secure.strangers)
    assert "certificate" in refused(secure, client, way, told)


@pytest.mark.full
@pytest.mark.parametrize("mechanism", [None, "SCRAM-SHA-512"])
def test_a_client_that_is_not_trusted(
    secure: SecureCluster, client: DriverClient, mechanism: str | None
) -> None:
    way = Way(wire=Wire.MUTUAL, mechanism=mechanism)
    told = security(secure, way, shown=secure.stranger)
    # Of TLS 1.3 a client learns it after its handshake, by an alert or by the end of its connection.
    assert refused(secure, client, way, told)
