"""The processes of a supervised cluster, and the settings of each."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from highwater.controller.config import ControllerConfig
from highwater.embed.combined.settings import load_combined
from highwater.embed.supervisor.port_blocks import gateway_overrides, lay_out
from highwater.embed.up.data_dir import DataDir
from highwater.embed.up.options import (
    UpOptions,
    chosen_settings,
    cluster_overrides,
    up_defaults,
    with_own,
)
from highwater.embed.up.ports import check_ports, free_ports
from highwater.gateway.config import GatewayConfig, ListenerConfig
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.partition.config import PartitionConfig
from highwater.quota.config import QuotaConfig
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import load_settings

LOOPBACK: Final = "127.0.0.1"

BOOTSTRAP_WAIT_S: Final = 5.0
"""For the first node to start, which takes a second: its gateway is to have the bootstrap port."""

_Config = ControllerConfig | QuotaConfig | PartitionConfig | GatewayConfig

_CONFIGS: Final[Mapping[str, type[_Config]]] = {
    "controller": ControllerConfig,
    "quota": QuotaConfig,
    "partition": PartitionConfig,
    "gateway": GatewayConfig,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One process. `name` is unique ("partition-2"), `section` is the command that it runs.

    The names of a broker's overrides begin with their own section.
    """

    name: str
    section: str
    overrides: Mapping[str, Any]
    metrics: str | None
    """host:port of its /metrics; None if it serves none."""

    def command(self, options: UpOptions, *, parent: int) -> list[str]:
        """Its command line; the process ends when `parent` does."""
        words = [sys.executable, "-m", "highwater.embed", self.section, "--parent", str(parent)]
        if options.config_file is not None:
            words += ["--config", str(options.config_file.resolve())]
        for name, value in self.overrides.items():
            words += ["--set", f"{name}={_as_text(value)}"]
        return words


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """Processes in order: controller, quota, nodes, gateways; they are stopped in reverse."""

    controller_address: str
    gateway_addresses: Sequence[tuple[str, int]]
    processes: Sequence[ProcessSpec]
    chosen: frozenset[tuple[str, int]]
    """Host and port of all ports that nobody asked for: any others would do as well."""
    shared_bootstrap: bool
    """True if all nodes have the bootstrap port, one after the other, and each its own behind it."""
    inner: InnerSettings = field(default_factory=InnerSettings)
    """What the controller asks of others, which tools have to know."""

    @property
    def metrics_addresses(self) -> dict[str, str]:
        """host:port of /metrics by the names of those processes that serve it."""
        return {spec.name: spec.metrics for spec in self.processes if spec.metrics is not None}


def make_plan(options: UpOptions, data_dir: DataDir) -> ClusterPlan:
    """Chooses ports and settings. Raises UsageError for invalid ones, before anything runs."""
    base = cluster_overrides(options)
    listeners = _listeners(options, base["gateway"])
    blocks = lay_out(listeners, nodes=options.nodes, gateways=options.gateways or 1)
    ports = [each[DEFAULT_LISTENER].port for each in blocks.gateways]
    count = 2 + options.nodes + (0 if options.combined else len(ports))
    # Controller, quota, and metrics of each process; together, so that no two get the same.
    free = free_ports(LOOPBACK, 2 + count, apart=blocks.ports)
    controller, quota = f"{LOOPBACK}:{free}", f"{LOOPBACK}:{free + 1}"
    own: list[_Own] = [
        _Own(
            "controller",
            "controller",
            _listen(controller)
            | {"controller_id": "controller-1", "data_dir": data_dir.controller},
        ),
        _Own("quota", "quota", _listen(quota) | {"controllers": [controller]}),
    ]
    nodes = {
        node: {
            "host": LOOPBACK,
            "port": 0,
            "node_id": node,
            "log_dirs": [str(data_dir.node(node))],
            "controllers": [controller],
            "quota_address": quota,
        }
        for node in range(1, options.nodes + 1)
    }
    if options.combined:
        own += [
            _Own(
                f"node-{node}",
                "broker",
                {"port": ports[0], "bootstrap_wait_s": BOOTSTRAP_WAIT_S if node > 1 else 0},
                partition=settings,
            )
            for node, settings in nodes.items()
        ]
    else:
        own += [_Own(f"partition-{node}", "partition", each) for node, each in nodes.items()]
        own += [
            _Own(
                f"gateway-{number}",
                "gateway",
                {"port": port, "gateway_id": f"gateway-{number}", "controllers": [controller]},
                blocks=number - 1,
            )
            for number, port in enumerate(ports, start=1)
        ]
    assert len(own) == count
    processes = []
    for index, one in enumerate(own):
        plan = _combined if one.partition is not None else _service
        got = blocks.gateways[one.blocks]
        shift = got[DEFAULT_LISTENER].port - ports[0]
        of_gateway = gateway_overrides(base["gateway"], listeners, got, shift=shift)
        given = {**base, "gateway": of_gateway}
        processes.append(plan(one, given, index, options, free_port=free + 2 + index))
    own_ports = [controller, quota, *(spec.metrics for spec in processes if spec.metrics)]
    chosen = {(host, int(port)) for host, _, port in (one.rpartition(":") for one in own_ports)}
    return ClusterPlan(
        controller_address=controller,
        gateway_addresses=[(options.host, port) for port in ports],
        processes=processes,
        chosen=blocks.chosen | {one for one in chosen if one[1] in range(free, free + 2 + count)},
        shared_bootstrap=options.combined,
        inner=_controllers_inner(options, base["controller"]),
    )


@dataclass(frozen=True, slots=True)
class _Own:
    """A process' name, its command, and the settings that follow from the flags.

    With `partition` it is a node with its gateway, whose settings are the first ones. `blocks` is the
    number of its gateway's blocks of ports.
    """

    name: str
    section: str
    settings: dict[str, Any]
    partition: dict[str, Any] | None = None
    blocks: int = 0


def _listeners(options: UpOptions, overrides: Mapping[str, Any]) -> dict[str, ListenerConfig]:
    """The listeners of a gateway as the settings have them. Raises ConfigError."""
    settings = load_settings(
        GatewayConfig,
        config_file=options.config_file,
        overrides=with_own("gateway", overrides, {"port": options.port}),
    )
    return settings.all_listeners


def _controllers_inner(options: UpOptions, overrides: Mapping[str, Any]) -> InnerSettings:
    settings = load_settings(
        ControllerConfig,
        config_file=options.config_file,
        overrides=overrides,
        defaults=up_defaults("controller", options),
    )
    return settings.inner


def _service(
    own: _Own,
    base: Mapping[str, Mapping[str, Any]],
    index: int,
    options: UpOptions,
    *,
    free_port: int,
) -> ProcessSpec:
    """`free_port` is for its metrics if none is set; it stays the same at restarts."""
    overrides = with_own(own.section, base[own.section], own.settings)
    defaults = up_defaults(own.section, options)
    # Load the settings here, so that a mistake is reported in one line before anything starts.
    settings = load_settings(
        _CONFIGS[own.section],
        config_file=options.config_file,
        overrides=overrides,
        defaults=defaults,
    )
    chosen = chosen_settings(settings, defaults)
    metrics = _metrics(options, settings.metrics, index, free_port)
    if metrics is not None:
        overrides["metrics.port"] = metrics[1]
    return ProcessSpec(
        name=own.name,
        section=own.section,
        overrides=chosen | overrides,
        metrics=None if metrics is None else f"{metrics[0]}:{metrics[1]}",
    )


def _combined(
    own: _Own,
    base: Mapping[str, Mapping[str, Any]],
    index: int,
    options: UpOptions,
    *,
    free_port: int,
) -> ProcessSpec:
    """A node with its gateway; like `_service`, with names that begin with their section."""
    assert own.partition is not None
    partition = own.partition
    gateway = own.settings | {"gateway_id": own.name, "controllers": partition["controllers"]}
    by_section = {
        "broker": {"roles": ["gateway", "partition"]},
        "gateway": with_own("gateway", base["gateway"], gateway),
        "partition": with_own("partition", base["partition"], partition),
    }
    defaults = {section: up_defaults(section, options) for section in ("gateway", "partition")}
    settings = load_combined(options.config_file, by_section, defaults)
    services = {"gateway": settings.gateway, "partition": settings.partition}
    overrides = {
        f"{section}.{name}": value
        for section, names in defaults.items()
        if (of := services[section]) is not None
        for name, value in chosen_settings(of, names).items()
    }
    for section, values in by_section.items():
        overrides |= {f"{section}.{name}": value for name, value in values.items()}
    metrics = _metrics(options, settings.metrics, index, free_port)
    if metrics is not None:
        overrides["broker.metrics.host"], overrides["broker.metrics.port"] = metrics
    return ProcessSpec(
        name=own.name,
        section=own.section,
        overrides=overrides,
        metrics=None if metrics is None else f"{metrics[0]}:{metrics[1]}",
    )


def _metrics(
    options: UpOptions, settings: MetricsSettings, index: int, free_port: int
) -> tuple[str, int] | None:
    """Host and port of a process' /metrics; None if they are off."""
    port = options.metrics_port_of(settings, index)
    if port is None:
        return None
    port = port or free_port
    check_ports(settings.host, port)
    return settings.host, port


def _listen(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    return {"host": host, "port": int(port)}


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list | dict) else str(value)
