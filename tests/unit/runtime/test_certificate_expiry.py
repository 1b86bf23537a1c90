"""When certificates end: as a metric, and as a warning that does not repeat itself."""

from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from highwater.runtime import certificate_expiry as module
from highwater.runtime.certificate_expiry import (
    AGAIN_S,
    SOON_S,
    CertificateExpiry,
    expires_s,
    watch_certificates,
)
from tests.support.certificates import make_certificate

NAME = "highwater_gateway_certificate_expiry_timestamp_seconds"


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))[0].read_bytes()


class Log:
    def __init__(self):
        self.lines = []

    def warning(self, event, **values):
        self.lines.append((event, values))


class World:
    def __init__(self, pem):
        self.now_s = 0.0
        self.certificates = {"inner": pem}
        self.log = Log()
        self.expiry = CertificateExpiry(
            "gateway", lambda: self.certificates, self.log, now_s=lambda: self.now_s
        )

    def sample(self, name):
        registry = CollectorRegistry()
        registry.register(self.expiry)
        return registry.get_sample_value(NAME, {"certificate": name})


def test_the_first_certificate_of_a_chain_counts(pem, tmp_path):
    other = make_certificate(tmp_path)[0].read_bytes()
    ends = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    assert expires_s(pem + other) == int(ends.timestamp())
    assert datetime.fromtimestamp(expires_s(pem), UTC) == ends


@pytest.mark.parametrize("broken", [b"", b"nothing"])
def test_a_certificate_that_cannot_be_read_is_left_out(broken):
    world = World(broken)
    assert expires_s(broken) is None
    assert world.sample("inner") is None
    world.expiry.warn()
    assert world.log.lines == []


def test_the_metric_follows_what_is_in_use(pem):
    world = World(pem)
    assert world.sample("inner") == expires_s(pem)
    world.certificates = {"listener/default": pem}
    assert world.sample("inner") is None
    assert world.sample("listener/default") == expires_s(pem)


def test_a_warning_comes_14_days_before_and_once_a_day(pem):
    world = World(pem)
    world.now_s = expires_s(pem) - SOON_S
    world.expiry.warn()
    assert world.log.lines == []
    world.now_s += 1
    for _ in range(3):
        world.expiry.warn()
    assert world.log.lines == [
        ("certificate_ends_soon", {"certificate": "inner", "left_days": 14.0})
    ]
    world.now_s += AGAIN_S - 1
    world.expiry.warn()
    assert len(world.log.lines) == 1
    world.now_s += 20 * AGAIN_S
    world.expiry.warn()
    assert world.log.lines[1][1]["left_days"] == -7.0, "it has ended"


async def test_a_service_looks_at_its_start_and_every_hour(pem, monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    reads = []

    def read():
        reads.append(1)
        return {"inner": pem}

    log, registry = Log(), CollectorRegistry()
    async with AsyncExitStack() as stack:
        watch_certificates(stack, registry, "gateway", read, log)
        assert len(reads) == 1
        for _ in range(10):
            await module.asyncio.sleep(0.001)
        assert len(reads) > 1
        assert len(log.lines) == 1, "the test's certificate lasts two days"
        assert registry.get_sample_value(NAME, {"certificate": "inner"}) == expires_s(pem)
    seen = len(reads)
    await module.asyncio.sleep(0.01)
    assert len(reads) == seen
