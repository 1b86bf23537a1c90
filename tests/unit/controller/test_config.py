"""The controller's settings."""

import pytest
from pydantic import ValidationError

from highwater.controller.config import ControllerConfig
from highwater.controller.service import open_store
from highwater.model.errors import ConfigError, UsageError
from highwater.runtime.settings import load_settings


def test_defaults_hold_together() -> None:
    config = ControllerConfig()
    assert config.session_timeout_ms == 6_000
    assert config.stream_grace_ms == 500
    assert config.lease_ttl_ms > 4_000, "an etcd election must not cost the office"


def test_every_setting_is_described() -> None:
    assert all(info.description for info in ControllerConfig.model_fields.values())


def test_contradictory_times_are_refused() -> None:
    with pytest.raises(ValidationError, match="session_timeout_ms must be"):
        ControllerConfig(session_timeout_ms=1_000, heartbeat_interval_ms=500)


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWATER_CONTROLLER_STORE", "etcd")
    monkeypatch.setenv("HIGHWATER_CONTROLLER_ETCD__ENDPOINTS", '["a:1","b:2"]')
    config = load_settings(ControllerConfig)
    assert (config.store, config.etcd.endpoints) == ("etcd", ("a:1", "b:2"))
    monkeypatch.setenv("HIGHWATER_CONTROLLER_STORE", "zookeeper")
    with pytest.raises(ConfigError):
        load_settings(ControllerConfig)


def test_history_is_kept_for_an_hour_for_ever_or_a_minute_at_least() -> None:
    def given(**settings: int) -> int:
        return load_settings(ControllerConfig, overrides={"etcd": settings}).etcd.compact_after_ms

    assert given() == 3_600_000
    assert given(compact_after_ms=0) == 0
    assert given(compact_after_ms=60_000) == 60_000
    with pytest.raises(ConfigError, match="0 or at least 60000"):
        given(compact_after_ms=59_999)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"USER": "u"}, "user and password belong together"),
        ({"PASSWORD": "sesame"}, "user and password belong together"),
        ({"USER": "u", "PASSWORD": "sesame"}, "tls_ca_file must be set"),
        ({"TLS_CERT_FILE": "c.pem", "TLS_CA_FILE": "ca.pem"}, "belong together"),
        ({"TLS_CERT_FILE": "c.pem", "TLS_KEY_FILE": "k.pem"}, "tls_ca_file must be set"),
    ],
)
def test_incomplete_security_settings_of_etcd(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], message: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"HIGHWATER_CONTROLLER_ETCD__{name}", value)
    with pytest.raises(ConfigError, match=message) as raised:
        load_settings(ControllerConfig)
    assert "sesame" not in str(raised.value)


def test_etcd_s_security_reaches_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "TLS_CA_FILE": "/ca.pem", "TLS_CERT_FILE": "/c.pem", "TLS_KEY_FILE": "/k.pem",
        "USER": "u", "PASSWORD": "sesame",
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(f"HIGHWATER_CONTROLLER_ETCD__{name}", value)
    config = load_settings(ControllerConfig, overrides={"store": "etcd"})
    assert "sesame" not in repr(config)
    with pytest.raises(UsageError, match=r"cannot read /ca\.pem"):
        open_store(config)
