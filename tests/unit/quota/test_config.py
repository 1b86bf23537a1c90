import pytest

from highwater.model.errors import ConfigError
from highwater.quota.config import QuotaConfig
from highwater.runtime.settings import load_settings


def test_defaults_and_environment(monkeypatch):
    assert load_settings(QuotaConfig) == QuotaConfig()
    monkeypatch.setenv("HIGHWATER_QUOTA_CONTROLLERS", '["a:1", "b:2"]')
    monkeypatch.setenv("HIGHWATER_QUOTA_METRICS__PORT", "0")
    config = load_settings(QuotaConfig)
    assert config.controllers == ("a:1", "b:2")
    assert config.metrics.port == 0
    assert config.policy == "waterfill"


@pytest.mark.parametrize("wrong", [{"policy": "magic"}, {"tick_ms": 1}, {"controllers": []}])
def test_wrong_values(wrong):
    with pytest.raises(ConfigError):
        load_settings(QuotaConfig, overrides=wrong)
