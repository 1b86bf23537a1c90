import socket
import sys
from pathlib import Path

import pytest

from highwater.embed.combined.settings import load_broker_settings
from highwater.embed.supervisor.plan import make_plan
from highwater.embed.up import ports
from highwater.embed.up.data_dir import DataDir
from highwater.embed.up.options import UpOptions
from highwater.embed.up.ports import free_ports
from highwater.gateway.config import GatewayConfig
from highwater.model.errors import ConfigError, PortInUseError, UsageError
from highwater.model.ids import INTERNAL_REPLICAS_MAX
from highwater.runtime.settings import load_settings, parse_assignments


def plan_of(tmp_path, **flags):
    options = UpOptions(data_dir=tmp_path, **{"port": 0, **flags})
    return options, make_plan(options, DataDir(tmp_path))


def test_processes_and_their_addresses(tmp_path):
    _, plan = plan_of(tmp_path, nodes=2, gateways=2)
    by_name = {spec.name: spec.overrides for spec in plan.processes}
    assert list(by_name) == [
        "controller", "quota", "partition-1", "partition-2", "gateway-1", "gateway-2",
    ]  # fmt: skip
    controller = by_name["controller"]
    assert plan.controller_address == f"{controller['host']}:{controller['port']}"
    for name in ("quota", "partition-1", "partition-2", "gateway-1", "gateway-2"):
        assert by_name[name]["controllers"] == [plan.controller_address]
    quota = by_name["quota"]
    assert by_name["partition-2"]["quota_address"] == f"{quota['host']}:{quota['port']}"
    assert by_name["partition-2"]["node_id"] == 2
    assert by_name["partition-2"]["log_dirs"] == [str(tmp_path / "node-2")]
    # Each gateway has a block: bootstrap, node 1, node 2.
    first, second = (port for _, port in plan.gateway_addresses)
    assert second == first + 3
    assert by_name["gateway-2"]["port"] == second


@pytest.mark.parametrize("flags", [{"gateways": 2}, {}, {"separate": True}])
def test_no_two_processes_get_the_same_port(tmp_path, monkeypatch, flags):
    block = free_ports("127.0.0.1", 40)
    # The worst luck: every choice begins where the one before did, until that is refused.
    tries = iter([block, block, block + 4, block + 20])
    monkeypatch.setattr(ports.random, "choice", lambda _: next(tries))
    _, plan = plan_of(tmp_path, nodes=3, **flags)
    chosen = [port + n for _, port in plan.gateway_addresses for n in range(4)]
    own = {spec.name: spec.overrides for spec in plan.processes}
    chosen += [own[name]["port"] for name in ("controller", "quota")]
    chosen += [int(address.rpartition(":")[2]) for address in plan.metrics_addresses.values()]
    assert len(chosen) == len(set(chosen)) >= 4 + 2 + 5


@pytest.mark.parametrize("port", [0, None])
@pytest.mark.parametrize("flags", [{}, {"separate": True}])
def test_it_says_which_ports_nobody_asked_for(tmp_path, port, flags):
    port = free_ports("127.0.0.1", 4) if port is None else port
    assigned = ("quota.metrics.port=0", f"controller.metrics.port={free_ports('127.0.0.1', 1)}")
    _, plan = plan_of(tmp_path, nodes=3, port=port, assignments=assigned, **flags)
    own = {spec.name: spec.overrides for spec in plan.processes}
    expected = {(own[name]["host"], own[name]["port"]) for name in ("controller", "quota")}
    expected |= {
        ("127.0.0.1", int(address.rpartition(":")[2]))
        for name, address in plan.metrics_addresses.items()
        if name != "controller"
    }
    if port == 0:
        [(host, first)] = plan.gateway_addresses
        expected |= {(host, first + node) for node in range(4)}
    assert plan.chosen == expected
    assert plan.shared_bootstrap == (not flags)


def test_the_first_node_gets_the_bootstrap_port(tmp_path):
    _, plan = plan_of(tmp_path, nodes=3)
    waits = {spec.name: spec.overrides.get("gateway.bootstrap_wait_s") for spec in plan.processes}
    assert waits["node-1"] == 0
    assert waits["node-2"] == waits["node-3"] > 1


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_the_group_metadata_topic_waits_for_enough_nodes(tmp_path, nodes):
    options, plan = plan_of(tmp_path, nodes=nodes, separate=True)
    gateway = next(spec for spec in plan.processes if spec.name == "gateway-1")
    factor = min(INTERNAL_REPLICAS_MAX, nodes)
    assert f"group_metadata_replication_factor={factor}" in gateway.command(options, parent=1)
    assert f"transaction_state_replication_factor={factor}" in gateway.command(options, parent=1)


def test_the_factor_of_group_metadata_can_be_chosen(tmp_path):
    options, plan = plan_of(
        tmp_path,
        nodes=3,
        separate=True,
        assignments=("gateway.group_metadata_replication_factor=2",),
    )
    gateway = next(spec for spec in plan.processes if spec.name == "gateway-1")
    assert "group_metadata_replication_factor=2" in gateway.command(options, parent=1)


def test_gateways_on_one_host_shift_the_ports_of_instances_by_their_distance(tmp_path):
    options, plan = plan_of(tmp_path, nodes=3, separate=True, gateways=3)
    commands = {spec.name: spec.command(options, parent=1) for spec in plan.processes}
    assert not any("instance_port_shift" in part for part in commands["gateway-1"])
    assert "instance_port_shift=4" in commands["gateway-2"]
    assert "instance_port_shift=8" in commands["gateway-3"]


def test_command_line_of_a_process(tmp_path):
    options, plan = plan_of(
        tmp_path, separate=True, config_file=None, assignments=("partition.drain_s=1",)
    )
    spec = next(spec for spec in plan.processes if spec.name == "partition-1")
    command = spec.command(options, parent=77)
    assert command[:6] == [
        sys.executable, "-m", "highwater.embed", "partition", "--parent", "77",
    ]  # fmt: skip
    assert "drain_s=1" in command
    assert f'log_dirs=["{tmp_path}/node-1"]' in command
    assert "group_initial_rebalance_delay_ms=0" in command


def test_metrics_ports_one_after_another(tmp_path):
    first = free_ports("127.0.0.1", 4)
    _, plan = plan_of(tmp_path, separate=True, metrics_port=first)
    assert [spec.overrides["metrics.port"] for spec in plan.processes] == [
        first, first + 1, first + 2, first + 3,
    ]  # fmt: skip


def test_every_process_serves_metrics_on_a_free_port_unless_told_otherwise(tmp_path):
    _, plan = plan_of(tmp_path, nodes=2, separate=True)
    ports = [spec.overrides["metrics.port"] for spec in plan.processes]
    assert len({*ports, 0}) == len(plan.processes) + 1
    assert plan.metrics_addresses == {
        spec.name: f"127.0.0.1:{spec.overrides['metrics.port']}" for spec in plan.processes
    }


def test_metrics_can_be_off_or_where_a_services_own_settings_say(tmp_path):
    own = free_ports("127.0.0.1", 1)
    chosen = (f"gateway.metrics.port={own}",)
    _, plan = plan_of(tmp_path, separate=True, metrics_port=0)
    assert plan.metrics_addresses == {}
    assert not any("metrics.port" in spec.overrides for spec in plan.processes)
    _, plan = plan_of(tmp_path, separate=True, metrics_port=0, assignments=chosen)
    assert plan.metrics_addresses == {"gateway-1": f"127.0.0.1:{own}"}
    _, plan = plan_of(tmp_path, separate=True, assignments=chosen)
    assert plan.metrics_addresses["gateway-1"] == f"127.0.0.1:{own}"
    assert len(plan.metrics_addresses) == 4


def test_invalid_settings_are_found_before_anything_runs(tmp_path):
    with pytest.raises(ConfigError, match="partition settings: nope is not a setting"):
        plan_of(tmp_path, assignments=("partition.nope=1",))
    for nodes in (1, 2):
        with pytest.raises(ConfigError, match=r"partition\.node_id follows from the flags"):
            plan_of(tmp_path, nodes=nodes, assignments=("partition.node_id=1",))
    with pytest.raises(ConfigError, match="gateway settings: nope is not a setting"):
        plan_of(tmp_path, nodes=2, assignments=("gateway.nope=1",))
    with pytest.raises(ConfigError, match="cannot read config file"):
        plan_of(tmp_path, config_file=Path("/no/file"))
    with pytest.raises(UsageError, match="do not fit into the ports"):
        plan_of(tmp_path, port=65530, nodes=10)


def test_port_of_a_node_is_taken(tmp_path):
    first = free_ports("127.0.0.1", 3)
    with (
        socket.create_server(("127.0.0.1", first + 2)),
        pytest.raises(PortInUseError, match=f":{first + 2} "),
    ):
        plan_of(tmp_path, port=first, nodes=2)


def test_several_nodes_are_their_own_gateways_with_one_block_of_ports(tmp_path):
    options, plan = plan_of(tmp_path, nodes=3, assignments=("partition.drain_s=1",))
    assert [(spec.name, spec.section) for spec in plan.processes] == [
        ("controller", "controller"),
        ("quota", "quota"),
        ("node-1", "broker"),
        ("node-2", "broker"),
        ("node-3", "broker"),
    ]
    ((host, port),) = plan.gateway_addresses
    second = plan.processes[3].overrides
    assert second["gateway.port"] == port
    assert second["gateway.host"] == host
    assert second["gateway.gateway_id"] == "node-2"
    assert second["gateway.group_metadata_replication_factor"] == 3
    assert second["partition.node_id"] == 2
    assert second["partition.log_dirs"] == [str(tmp_path / "node-2")]
    assert second["partition.drain_s"] == "1"
    assert second["partition.group_initial_rebalance_delay_ms"] == 0
    for section in ("gateway", "partition"):
        assert second[f"{section}.controllers"] == [plan.controller_address]
    quota = plan.processes[1].overrides
    assert second["partition.quota_address"] == f"{quota['host']}:{quota['port']}"
    command = plan.processes[3].command(options, parent=77)
    assert command[3:6] == ["broker", "--parent", "77"]
    assert f"gateway.port={port}" in command
    assert 'broker.roles=["gateway", "partition"]' in command
    # What the supervisor chose is what the process reads.
    read = load_broker_settings(None, command[7::2])
    assert (read.gateway.port, read.partition.node_id) == (port, 2)
    assert plan.metrics_addresses["node-2"] == f"{read.metrics.host}:{read.metrics.port}"


def test_a_table_for_brokers_does_not_change_the_shape(tmp_path):
    file = tmp_path / "h.toml"
    file.write_text("[broker]\nroles = ['controller']\n[gateway.metrics]\nhost = '127.0.0.2'\n")
    options, plan = plan_of(tmp_path, nodes=2, config_file=file)
    assert plan.metrics_addresses["node-1"].startswith("127.0.0.2:")
    words = plan.processes[2].command(options, parent=1)
    assert words[6:8] == ["--config", str(file)]
    read = load_broker_settings(file, words[9::2])
    assert list(read.services) == ["gateway", "partition"]
    assert read.metrics.host == "127.0.0.2"


def test_gateways_by_themselves_are_asked_for(tmp_path):
    for flags in ({"separate": True}, {"gateways": 1}):
        _, plan = plan_of(tmp_path, nodes=2, **flags)
        assert [spec.name for spec in plan.processes] == [
            "controller", "quota", "partition-1", "partition-2", "gateway-1",
        ]  # fmt: skip


def test_gateways_have_blocks_of_their_own_for_every_listener(tmp_path, monkeypatch):
    first = free_ports("127.0.0.1", 100)
    monkeypatch.setenv("HIGHWATER_GATEWAY_LISTENERS__INTERNAL__PORT", str(first + 50))
    file = tmp_path / "h.toml"
    file.write_text(
        "[gateway.listeners.internal]\nhost = '127.0.0.2'\nproxy_protocol = true\n"
        "proxy_networks = ['127.0.0.1']\n"
    )
    flags = {"nodes": 3, "gateways": 2, "port": first, "config_file": file}
    options, plan = plan_of(tmp_path, **flags)
    for number, moved in ((1, 0), (2, 4)):
        spec = next(spec for spec in plan.processes if spec.name == f"gateway-{number}")
        words = spec.command(options, parent=1)
        read = load_settings(
            GatewayConfig, config_file=file, overrides=parse_assignments(words[9::2])
        )
        internal = read.listeners["internal"]
        assert (read.port, internal.port) == (first + moved, first + 50 + moved)
        assert (internal.host, internal.proxy_protocol) == ("127.0.0.2", True)


@pytest.mark.parametrize("flags", [{"gateways": 2}, {}])
def test_no_process_gets_a_port_of_a_further_listener(tmp_path, monkeypatch, flags):
    block = free_ports("127.0.0.1", 60)
    count = 4 * flags.get("gateways", 1)
    tries = iter([block + 8 + count - 1, block + 20, block + 40])
    monkeypatch.setattr(ports.random, "choice", lambda _: next(tries))
    assigned = (f"gateway.listeners.internal.port={block + 8}",)
    _, plan = plan_of(tmp_path, nodes=3, port=block, assignments=assigned, **flags)
    own = {spec.name: spec.overrides for spec in plan.processes}
    assert own["controller"]["port"] == block + 20


def test_nodes_that_are_their_own_gateways_share_the_free_block_of_a_listener(tmp_path):
    assigned = ("gateway.listeners.internal.port=0", "gateway.listeners.internal.host=127.0.0.2")
    options, plan = plan_of(tmp_path, nodes=2, assignments=assigned)
    read = [
        load_broker_settings(None, s.command(options, parent=1)[7::2]) for s in plan.processes[2:]
    ]
    (internal,) = {one.gateway.listeners["internal"] for one in read}
    assert internal.port > 0
    assert internal.host == "127.0.0.2"


def test_a_taken_port_of_a_further_listener_is_found_before_anything_runs(tmp_path):
    first = free_ports("127.0.0.1", 3)
    assigned = (f"gateway.listeners.internal.port={first}",)
    with (
        socket.create_server(("127.0.0.1", first + 2)),
        pytest.raises(PortInUseError, match=f":{first + 2} "),
    ):
        plan_of(tmp_path, nodes=2, assignments=assigned)


SECTIONS = {"controller", "quota", "partition", "gateway"}


def secrets_of(plan):
    """Section -> the secret file that its processes are told."""
    told = {}
    for spec in plan.processes:
        for name, value in spec.overrides.items():
            if name.endswith("inner.secret_file"):
                section = spec.section if name.startswith("inner") else name.split(".")[0]
                told.setdefault(section, set()).add(str(value))
    return told


@pytest.mark.parametrize("flags", [{}, {"separate": True}])
def test_all_services_have_the_secret_of_the_data_directory(tmp_path, flags):
    _, plan = plan_of(tmp_path, nodes=2, **flags)
    secret = str(DataDir(tmp_path).secret)
    assert secrets_of(plan) == {section: {secret} for section in SECTIONS}
    assert str(plan.inner.secret_file) == secret


def test_another_secret_can_be_chosen_or_none(tmp_path):
    chosen = tuple(f"{section}.inner.secret_file=/chosen" for section in SECTIONS)
    _, plan = plan_of(tmp_path, nodes=2, assignments=chosen)
    assert secrets_of(plan) == {section: {"/chosen"} for section in SECTIONS}
    none = tuple(f"{section}.inner.secret_file=" for section in SECTIONS)
    _, plan = plan_of(tmp_path, nodes=2, assignments=none)
    assert set().union(*secrets_of(plan).values()) == {""}
    assert plan.inner.secret_file is None
