import pytest
from pydantic import ValidationError

from highwater.controller.config import ControllerConfig
from highwater.gateway.config import GatewayConfig
from highwater.model.errors import ConfigError
from highwater.partition.config import PartitionConfig
from highwater.quota.config import QuotaConfig
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.settings import load_settings

FILES = {"cert_file": "c.pem", "key_file": "k.pem", "ca_file": "a.pem"}


@pytest.mark.parametrize("config", [ControllerConfig, GatewayConfig, PartitionConfig, QuotaConfig])
def test_every_service_has_them_and_nothing_is_set(config):
    assert load_settings(config).inner == InnerSettings()
    named = load_settings(config, overrides={"inner.secret_file": "/run/secret"})
    assert str(named.inner.secret_file) == "/run/secret"


@pytest.mark.parametrize("absent", list(FILES))
def test_certificates_need_all_three_files(absent):
    files = {name: path for name, path in FILES.items() if name != absent}
    with pytest.raises(ValidationError, match="belong together"):
        InnerSettings(**files)
    assert InnerSettings(**FILES).ca_file is not None


def test_names_need_certificates():
    with pytest.raises(ConfigError, match="names need cert_file"):
        load_settings(QuotaConfig, overrides={"inner.names": ["n"], "inner.secret_file": "s"})


def test_an_empty_file_name_is_none():
    given = load_settings(
        QuotaConfig, overrides={"inner.secret_file": ""}, defaults={"inner.secret_file": "/made"}
    )
    assert given.inner.secret_file is None
