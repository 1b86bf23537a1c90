"""Settings of `highwater broker`: tables of several services, and what they share."""

from pathlib import Path

import pytest

from highwater.embed.combined.settings import load_broker_settings
from highwater.model.errors import ConfigError
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import LogSettings

CONFIGS = Path(__file__).parents[4] / "docs" / "configs.md"


def load(*assignments, file=None):
    return load_broker_settings(file, assignments)


def test_by_default_a_node_and_its_gateway():
    settings = load()
    assert list(settings.services) == ["gateway", "partition"]
    assert settings.controller is None
    assert settings.controllers == ("127.0.0.1:9300",)
    assert settings.metrics.port is None
    assert settings.log == LogSettings()


def test_every_service_reads_its_own_table(tmp_path, monkeypatch):
    file = tmp_path / "h.toml"
    file.write_text(
        "[broker]\nroles = ['partition', 'controller']\ncontrollers = ['c:1', 'd:2']\n"
        "[partition]\nnode_id = 7\nport = 1\n[gateway]\nport = 5\n[controller]\nport = 3\n"
    )
    monkeypatch.setenv("HIGHWATER_PARTITION_RACK", "r")
    settings = load("partition.port=2", file=file)
    assert list(settings.services) == ["partition", "controller"]
    assert settings.gateway is None
    assert (settings.partition.node_id, settings.partition.port) == (7, 2)
    assert settings.partition.rack == "r"
    assert settings.partition.controllers == settings.controllers == ("c:1", "d:2")
    assert settings.controller.port == 3


def test_controllers_are_named_once_or_in_each_table():
    named = load('broker.controllers=["c:1"]')
    assert named.gateway.controllers == named.partition.controllers == ("c:1",)
    each = load('gateway.controllers=["c:1"]', 'partition.controllers=["c:1"]')
    assert each.controllers == ("c:1",)
    with pytest.raises(ConfigError, match=r"partition\.controllers must be the same"):
        load('gateway.controllers=["c:1"]')


def test_metrics_and_log_are_the_process_s_or_the_first_role_s(monkeypatch):
    monkeypatch.setenv("HIGHWATER_GATEWAY_METRICS__PORT", "1")
    assert load("gateway.log.level=debug").metrics.port == 1
    assert load("gateway.log.level=debug").log.level == "debug"
    monkeypatch.setenv("HIGHWATER_BROKER_METRICS__PORT", "2")
    monkeypatch.setenv("HIGHWATER_BROKER_METRICS__HOST", "h")
    own = load("gateway.log.level=debug", "broker.log.level=error")
    assert (own.metrics.host, own.metrics.port, own.log.level) == ("h", 2, "error")


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ('broker.roles=["gateway","gateway"]', "a role is named twice"),
        ("broker.roles=[]", "roles"),
        ('broker.roles=["quota"]', "roles"),
        ("gateway.port=0", r"gateway\.port must not be 0"),
        ("quota.port=0", "a section of broker, gateway, partition, controller"),
    ],
)
def test_mistakes(assignment, message):
    with pytest.raises(ConfigError, match=message):
        load(assignment)


def test_port_0_needs_a_gateway_without_a_node_or_a_single_port():
    assert load("gateway.port=0", "gateway.single_port=true").gateway.port == 0
    assert load("gateway.port=0", 'broker.roles=["gateway"]').gateway.port == 0


def test_a_claimed_node_replaces_the_settings(tmp_path):
    settings = load(f"partition.data_root={tmp_path}")
    claimed = settings.partition.as_node(3, tmp_path / "node-3")
    changed = settings.with_partition(claimed)
    assert (changed.partition.node_id, changed.gateway) == (3, settings.gateway)


def test_the_documents_example_of_three_roles(tmp_path):
    text = CONFIGS.read_text(encoding="utf-8")
    (example,) = [
        part.split("```")[0] for part in text.split("```toml\n")[1:] if "[broker]" in part
    ]
    file = tmp_path / "a.toml"
    file.write_text(example)
    settings = load_broker_settings(file, ())
    assert list(settings.services) == ["gateway", "partition", "controller"]
    assert settings.controller.advertised_address in settings.controllers
    assert settings.gateway.controllers == settings.partition.controllers == settings.controllers
    assert (settings.controller.store, len(settings.controller.etcd.endpoints)) == ("etcd", 3)
    assert settings.partition.quota_address == ""


def test_what_is_shown_and_asked_is_named_once_or_in_each_table():
    assert load().inner == InnerSettings()
    named = load("broker.inner.secret_file=/s", 'broker.roles=["gateway","partition","controller"]')
    assert {str(one.inner.secret_file) for one in named.services.values()} == {"/s"}
    assert named.inner == named.gateway.inner
    each = load("gateway.inner.secret_file=/g", "partition.inner.secret_file=/g")
    assert str(each.inner.secret_file) == "/g"
    with pytest.raises(ConfigError, match=r"gateway\.inner and partition\.inner must be the same"):
        load("gateway.inner.secret_file=/g")
