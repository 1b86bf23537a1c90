"""Kafka's configs tool at an instance's own port: users who log in there, and quotas that hold there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer, ThrottleEvent

from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from tests.cluster.runner import HOST, MODES, Up
from tests.cluster.test_instance_doors import listens
from tests.conformance.topics import make_topic, unique_name
from tests.support import instances
from tests.support.java_tools import CONFIGS, java_tool
from tests.support.process import free_port_block, wait_until

pytestmark = [pytest.mark.java, pytest.mark.full]

PATIENCE_S = 60.0
SCRAM = "SCRAM-SHA-256"
LISTENER = "secure"
RATE = 50_000
RECORD = bytes(10 * RATE)
"""What a client with a quota may not even write at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An instance with a port for tools and one for those who log in, beside those of the cluster."""

    up: Up
    bootstrap: str
    secure: str
    others_secure: str
    """That of the default instance."""


@pytest.fixture(scope="module", params=["embedded", "combined3"])
def tenant(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenant]:
    block = MODES[request.param][0] + 1
    port = free_port_block(3 * block)
    settings = (
        f"gateway.listeners.{LISTENER}.port={port}",
        f'gateway.listeners.{LISTENER}.sasl_mechanisms=["{SCRAM}"]',
        "gateway.quota_window_num=2",  # Rates of a second, and not of ten.
    )
    up = Up(
        request.param,
        tmp_path_factory.mktemp("tools"),
        extra=tuple(word for each in settings for word in ("--set", each)),
    )
    own, own_secure = port + block, port + 2 * block
    state = InstanceState(
        instance=InstanceId("shop"),
        listeners=(
            InstanceListener(port=own),
            InstanceListener(listener=LISTENER, port=own_secure),
        ),
    )
    up.start()
    try:
        instances.at(up.data_dir, instances.create, state)
        for opened in (own, own_secure):
            wait_until(lambda p=opened: listens(p), timeout_s=PATIENCE_S, what=f"port {opened}")
        yield Tenant(
            up=up,
            bootstrap=f"{HOST}:{own}",
            secure=f"{HOST}:{own_secure}",
            others_secure=f"{HOST}:{port}",
        )
    finally:
        up.stop()


def configs(bootstrap: str, *arguments: str) -> str:
    """What the tool prints."""
    return java_tool(CONFIGS, "--bootstrap-server", bootstrap, *arguments).stdout


def login(bootstrap: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": SCRAM,
        "sasl.username": user,
        "sasl.password": password,
    }


def is_refused(settings: dict[str, Any]) -> bool:
    """Of two ways that a first login ends: a refusal, or a broker that answers."""
    errors: list[KafkaError] = []
    producer = Producer(settings | {"error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_S
    topic = unique_name("refused")
    done: list[KafkaError | None] = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: done.append(error))
    while time.monotonic() < deadline:
        producer.poll(0.2)
        if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            producer.purge()
            producer.flush(PATIENCE_S)
            return True
        if done:
            assert done == [None]
            return False
    raise AssertionError("neither a login nor a refusal")


def test_users(tenant: Tenant) -> None:
    user = unique_name("user")
    named = ("--entity-type", "users", "--entity-name", user)
    configs(tenant.bootstrap, "--alter", *named, "--add-config", f"{SCRAM}=[password=tea]")
    told = f"SCRAM credential configs for user-principal '{user}' are {SCRAM}=iterations=4096"
    assert told in configs(tenant.bootstrap, "--describe", *named)
    assert user not in configs(tenant.up.bootstrap, "--describe", *named)
    assert not is_refused(login(tenant.secure, user, "tea"))
    assert is_refused(login(tenant.secure, user, "coffee"))
    assert is_refused(login(tenant.others_secure, user, "tea")), "it is a user of the instance"
    configs(tenant.bootstrap, "--alter", *named, "--delete-config", SCRAM)
    assert user not in configs(tenant.bootstrap, "--describe", *named)
    assert is_refused(login(tenant.secure, user, "tea"))


def is_throttled(settings: dict[str, Any], topic: str) -> bool:
    """Writes one record."""
    delays: list[float] = []

    def throttled(event: ThrottleEvent) -> None:
        delays.append(event.throttle_time)

    producer = Producer(settings | {"throttle_cb": throttled})
    producer.produce(topic, RECORD)
    assert producer.flush(PATIENCE_S) == 0
    producer.poll(0)  # The answer's delay may be told after its delivery.
    return any(delays)


@pytest.mark.parametrize("kind", ["users", "clients"])
def test_quotas(tenant: Tenant, kind: str) -> None:
    # The user, or the client id; and nobody has logged in.
    name = "ANONYMOUS" if kind == "users" else unique_name("client")
    named = ("--entity-type", kind, "--entity-name", name)
    client_id = unique_name("client") if kind == "users" else name
    configs(tenant.bootstrap, "--alter", *named, "--add-config", f"producer_byte_rate={RATE}")
    assert f"producer_byte_rate={float(RATE)}" in configs(tenant.bootstrap, "--describe", *named)
    assert "producer_byte_rate" not in configs(tenant.up.bootstrap, "--describe", *named)
    topic = unique_name("quotas")
    for bootstrap, limited in ((tenant.bootstrap, True), (tenant.up.bootstrap, False)):
        make_topic(bootstrap, topic)
        settings = {"bootstrap.servers": bootstrap, "client.id": client_id}
        assert is_throttled(settings, topic) is limited
    configs(tenant.bootstrap, "--alter", *named, "--delete-config", "producer_byte_rate")
    assert "Quota configs" not in configs(tenant.bootstrap, "--describe", *named)


def test_quotas_of_a_user_who_has_logged_in(tenant: Tenant, tmp_path: Path) -> None:
    """The tool logs in, too."""
    user = unique_name("user")
    named = ("--entity-type", "users", "--entity-name", user)
    configs(tenant.bootstrap, "--alter", *named, "--add-config", f"{SCRAM}=[password=tea]")
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={SCRAM}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{user}" password="tea";\n'
    )
    by_login = ("--command-config", str(properties), *named)
    quota = ("--add-config", f"producer_byte_rate={RATE}")
    configs(tenant.secure, "--alter", *by_login, *quota)
    assert f"producer_byte_rate={float(RATE)}" in configs(tenant.secure, "--describe", *by_login)
    topic = make_topic(tenant.bootstrap, unique_name("quotas"))
    assert is_throttled(login(tenant.secure, user, "tea"), topic)
    assert not is_throttled({"bootstrap.servers": tenant.bootstrap}, topic)
