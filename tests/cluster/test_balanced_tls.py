"""A balancer in front of a listener with TLS: it has no key, and tells the gateway who its clients are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from highwater.embed.commands.quota import controller_address
from tests.cluster.runner import HIGHWATER, HOST, MODES, Up, run
from tests.cluster.test_tls import read
from tests.conformance.topics import unique_name
from tests.support.certificates import Certificate, make_certificate
from tests.support.process import (
    ManagedProcess,
    accepts_connections,
    free_port_block,
    wait_until,
)

PATIENCE_S = 30.0
TENANT = "shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Balanced:
    """A running cluster and its balancer."""

    bootstrap: str
    """The balancer's port of the default instance."""
    tenant: str
    """That of another one."""
    certificate: Certificate

    def confluent(self, bootstrap: str) -> dict[str, Any]:
        cert, key = map(str, self.certificate)
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": cert,
            "ssl.certificate.location": cert,
            "ssl.key.location": key,
        }


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("combined3", marks=pytest.mark.full)]
)
def balanced(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Balanced]:
    directory = tmp_path_factory.mktemp("balanced")
    certificate = make_certificate(directory)
    block = MODES[request.param][0] + 1
    inner = free_port_block(4 * block)
    outer, inner_tenant, outer_tenant = (inner + n * block for n in (1, 2, 3))
    settings = {
        "port": str(inner),
        "advertised_port": str(outer),
        "proxy_protocol": "true",
        "proxy_networks": '["127.0.0.1"]',
        "tls.cert_file": str(certificate[0]),
        "tls.key_file": str(certificate[1]),
        "tls.client_ca_file": str(certificate[0]),
        "tls.client_auth": "required",
    }
    extra = [
        word
        for name, value in settings.items()
        for word in ("--set", f"gateway.listeners.balanced.{name}={value}")
    ]
    up = Up(request.param, directory, extra=tuple(extra))
    up.start()
    balancer = ManagedProcess(
        "balancer",
        _balancer(up, inner=inner, outer=outer, block=block),
        log_path=directory / "balancer.log",
    )
    try:
        done = run(
            *("instance", "create", TENANT, "--listener", "balanced"),
            *("--port", str(inner_tenant), "--advertised-port", str(outer_tenant)),
            *("--certificates", "--data-dir", str(up.data_dir)),
        )
        assert done.returncode == 0, done.stderr
        balancer.start()
        for port in (outer, outer_tenant):
            wait_until(
                lambda port=port: accepts_connections(HOST, port),
                timeout_s=PATIENCE_S,
                what=f"port {port}\n{balancer.log_tail()}",
            )
        yield Balanced(
            bootstrap=f"{HOST}:{outer}", tenant=f"{HOST}:{outer_tenant}", certificate=certificate
        )
    finally:
        balancer.stop()
        up.stop()


def _balancer(up: Up, *, inner: int, outer: int, block: int) -> list[str]:
    settings = {
        "port": str(outer),
        "ports": str(block),
        "gateway_port": str(inner),
        "gateways": json.dumps([HOST]),
        "gateway_tls": "true",
        "listener": "balanced",
        "controllers": json.dumps([str(controller_address(None, up.data_dir))]),
        "inner.secret_file": str(up.data_dir / "inner.secret"),
        "check_s": "0.2",
    }
    words = [str(HIGHWATER), "balancer"]
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    return words


@pytest.mark.parametrize("whose", ["bootstrap", "tenant"])
def test_clients_shake_hands_with_the_gateway(balanced: Balanced, whose: str) -> None:
    settings = balanced.confluent(getattr(balanced, whose))
    topic = unique_name("balanced")
    values = [bytes([number]) * 10**number for number in range(6)] * 5
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    told = AdminClient(settings).list_topics(timeout=PATIENCE_S).brokers.values()
    block = int(getattr(balanced, whose).rpartition(":")[2])
    assert {one.port for one in told} <= set(range(block, block + 4)), "the balancer's ports"
    assert sorted(read(settings, topic, len(values))) == sorted(values)


def test_one_without_a_certificate_is_not_served(balanced: Balanced) -> None:
    settings = balanced.confluent(balanced.bootstrap)
    errors: list[KafkaError] = []
    without = {name: value for name, value in settings.items() if ".location" not in name}
    trusting = without | {"ssl.ca.location": settings["ssl.ca.location"]}
    producer = Producer(trusting | {"error_cb": errors.append})
    wait_until(
        lambda: producer.poll(0.2) > 0 or bool(errors), timeout_s=PATIENCE_S, what="an error"
    )
    assert "SSL" in errors[0].str() or "certificate" in errors[0].str()
