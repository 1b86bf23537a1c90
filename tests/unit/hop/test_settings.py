"""The hop's settings, of both services."""

import pytest

from highwater.gateway.config import GatewayConfig
from highwater.hop.settings import HopTransport
from highwater.model.errors import ConfigError
from highwater.partition.config import PartitionConfig
from highwater.runtime.settings import load_settings

BOTH = pytest.mark.parametrize("config", [GatewayConfig, PartitionConfig])


@BOTH
def test_the_loop_carries_the_hop_unless_told_otherwise(config, monkeypatch):
    assert config().hop.transport is HopTransport.LOOP
    settings = load_settings(config, overrides={"hop.transport": "grpcio"})
    assert settings.hop.transport is HopTransport.GRPCIO
    monkeypatch.setenv(f"HIGHWATER_{config.service.upper()}_HOP__TRANSPORT", "grpcio")
    assert load_settings(config).hop.transport is HopTransport.GRPCIO


@BOTH
def test_another_transport_is_refused(config):
    with pytest.raises(ConfigError, match=r"hop\.transport"):
        load_settings(config, overrides={"hop.transport": "quic"})


@BOTH
def test_unix_sockets_may_be_switched_off(config):
    assert config().hop.unix_sockets
    assert not load_settings(config, overrides={"hop.unix_sockets": "false"}).hop.unix_sockets
