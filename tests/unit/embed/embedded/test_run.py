from pathlib import Path

import pytest

from highwater.embed.embedded.run import broker_settings
from highwater.embed.up.options import UpOptions


def test_settings_follow_the_flags(tmp_path):
    settings = broker_settings(UpOptions(data_dir=tmp_path, host="127.0.0.2", port=1234))
    assert settings.controller.data_dir == tmp_path / "controller"
    assert settings.controller.port == 0
    assert settings.partition.log_dirs == (tmp_path / "node-1",)
    assert (settings.gateway.host, settings.gateway.port) == ("127.0.0.2", 1234)
    assert settings.gateway.single_port


def test_every_source_overrides_the_defaults_of_up(monkeypatch, tmp_path):
    options = UpOptions(data_dir=tmp_path)
    assert broker_settings(options).partition.group_initial_rebalance_delay_ms == 0
    file = tmp_path / "c.toml"
    file.write_text("[partition]\ngroup_initial_rebalance_delay_ms = 1\n")
    with_file = UpOptions(data_dir=tmp_path, config_file=file)
    assert broker_settings(with_file).partition.group_initial_rebalance_delay_ms == 1
    monkeypatch.setenv("HIGHWATER_PARTITION_GROUP_INITIAL_REBALANCE_DELAY_MS", "2")
    assert broker_settings(with_file).partition.group_initial_rebalance_delay_ms == 2
    with_set = UpOptions(
        data_dir=tmp_path,
        config_file=file,
        assignments=("partition.group_initial_rebalance_delay_ms=3",),
    )
    assert broker_settings(with_set).partition.group_initial_rebalance_delay_ms == 3


@pytest.mark.parametrize("etcd", [(), ("127.0.0.1:2379",)])
def test_store(etcd):
    controller = broker_settings(UpOptions(data_dir=Path("d"), etcd=etcd)).controller
    assert controller.store == ("etcd" if etcd else "sqlite")
