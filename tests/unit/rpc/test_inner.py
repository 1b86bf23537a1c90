from contextlib import AsyncExitStack

import pytest
import structlog
from prometheus_client import CollectorRegistry

from highwater.model.errors import ConfigError, UsageError
from highwater.rpc.inner import Inner
from highwater.runtime import reloaded_files
from highwater.runtime.certificate_expiry import expires_s
from highwater.runtime.inner_settings import InnerSettings
from tests.support.certificates import make_authority

SECRET = "s" * 20


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    authority = make_authority(tmp_path_factory.mktemp("inner"))
    cert, key = authority.issue("node")
    return {"ca_file": authority.certificate, "cert_file": cert, "key_file": key}


def test_without_settings_nothing_is_shown_or_asked():
    inner = Inner()
    assert inner.is_open
    assert (inner.proof, inner.guard(), inner.generation) == ((), None, 0)
    assert (inner.client_tls, inner.server_tls) == (None, None)


def test_a_secret(secret_file):
    inner = Inner(InnerSettings(secret_file=secret_file))
    assert not inner.is_open
    assert inner.proof == (("authorization", f"Bearer {SECRET}"),)
    guard = inner.guard()
    assert guard.refusal([]) != ""
    assert guard.refusal(inner.proof) == ""
    assert SECRET not in repr(inner)


def test_certificates_and_names(files):
    inner = Inner(InnerSettings(**files, names=("node",)))
    assert not inner.is_open
    assert inner.proof == ()
    assert inner.client_tls.shown == inner.server_tls.shown
    assert inner.guard().names == {"node"}
    assert inner.guard().refusal([]) == "", "certificates are enough"


def test_a_mistake_shows_at_once(files, tmp_path):
    with pytest.raises(ConfigError, match="cannot read the secret file"):
        Inner(InnerSettings(secret_file=tmp_path / "absent"))
    with pytest.raises(UsageError, match="cannot read"):
        Inner(InnerSettings(**files | {"ca_file": tmp_path / "absent"}))


def test_a_secret_that_others_may_read_is_told(secret_file):
    secret_file.chmod(0o644)
    with structlog.testing.capture_logs() as logs:
        Inner(InnerSettings(secret_file=secret_file), structlog.get_logger())
    assert [one["event"] for one in logs] == ["secret_file_open_to_others"]
    assert SECRET not in repr(logs)


def test_changed_files_that_cannot_be_used_are_told(secret_file, monkeypatch):
    monkeypatch.setattr(reloaded_files, "LOOK_S", 0.0)
    with structlog.testing.capture_logs() as logs:
        inner = Inner(InnerSettings(secret_file=secret_file), structlog.get_logger())
        secret_file.write_text("short")
        assert inner.proof == (("authorization", f"Bearer {SECRET}"),)
    assert [one["event"] for one in logs] == ["inner_files_not_loaded"]


async def test_when_its_certificate_ends_is_a_metric(files):
    registry = CollectorRegistry()
    name = "highwater_quota_certificate_expiry_timestamp_seconds"
    other = files["cert_file"].read_bytes()
    async with AsyncExitStack() as stack:
        inner = Inner(InnerSettings(**files))
        inner.watch_certificates(stack, registry, "quota", lambda: {"etcd": other})
        for certificate in ("inner", "etcd"):
            assert registry.get_sample_value(name, {"certificate": certificate}) == expires_s(other)


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("127.0.0.1", False),
        ("127.0.0.2", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("", True),
        ("10.0.0.5", True),
        ("node-1.example", True),
    ],
)
def test_a_server_that_anybody_may_call_is_told(host, told, secret_file):
    with structlog.testing.capture_logs() as lines:
        Inner(log=structlog.get_logger()).listens(host)
        Inner(InnerSettings(secret_file=secret_file), log=structlog.get_logger()).listens(host)
    assert [line["event"] for line in lines] == ["inner_calls_of_anybody"] * told
