import socket
from pathlib import Path

import pytest

from highwater.embed.embedded.run import broker_settings, run_embedded
from highwater.embed.up.options import UpOptions
from highwater.embed.up.ports import free_ports
from highwater.model.errors import PortInUseError


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


def test_a_taken_port_of_any_listener_is_found_before_anything_runs(tmp_path):
    first = free_ports("127.0.0.1", 2)
    options = UpOptions(
        data_dir=tmp_path / "data",
        port=first,
        assignments=(f"gateway.listeners.internal.port={first + 1}",),
    )
    for taken in (first, first + 1):
        with (
            socket.create_server(("127.0.0.1", taken)),
            pytest.raises(PortInUseError, match=f":{taken} "),
        ):
            run_embedded(options)
    assert not options.data_dir.exists()
