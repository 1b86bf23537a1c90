"""The processes of a supervised cluster, and the settings of each."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from highwater.controller.config import ControllerConfig
from highwater.embed.data_dir import DataDir
from highwater.embed.options import UpOptions, cluster_overrides, up_defaults, with_own
from highwater.embed.ports import check_ports, free_ports
from highwater.gateway.config import GatewayConfig
from highwater.model.errors import UsageError
from highwater.partition.config import PartitionConfig
from highwater.quota.config import QuotaConfig
from highwater.runtime.settings import load_settings

LOOPBACK: Final = "127.0.0.1"

_Config = ControllerConfig | QuotaConfig | PartitionConfig | GatewayConfig

_CONFIGS: Final[Mapping[str, type[_Config]]] = {
    "controller": ControllerConfig,
    "quota": QuotaConfig,
    "partition": PartitionConfig,
    "gateway": GatewayConfig,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One process. `name` is unique ("partition-2"), `section` is the command that it runs."""

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

    @property
    def metrics_addresses(self) -> dict[str, str]:
        """host:port of /metrics by the names of those processes that serve it."""
        return {spec.name: spec.metrics for spec in self.processes if spec.metrics is not None}


def make_plan(options: UpOptions, data_dir: DataDir) -> ClusterPlan:
    """Chooses ports and settings. Raises UsageError for invalid ones, before anything runs."""
    base = cluster_overrides(options)
    block = options.nodes + 1
    first_port = options.port or free_ports(options.host, block * options.gateways)
    gateways = [(options.host, first_port + number * block) for number in range(options.gateways)]
    if gateways[-1][1] + options.nodes > 65535:
        raise UsageError(f"{options.nodes} nodes do not fit into the ports after {first_port}")
    for host, port in gateways:
        check_ports(host, port, block)
    controller = f"{LOOPBACK}:{free_ports(LOOPBACK, 1)}"
    quota = f"{LOOPBACK}:{free_ports(LOOPBACK, 1)}"
    own: list[tuple[str, str, dict[str, Any]]] = [
        (
            "controller",
            "controller",
            _listen(controller)
            | {"controller_id": "controller-1", "data_dir": data_dir.controller},
        ),
        ("quota", "quota", _listen(quota) | {"controllers": [controller]}),
    ]
    own += [
        (
            f"partition-{node}",
            "partition",
            {
                "host": LOOPBACK,
                "port": 0,
                "node_id": node,
                "log_dirs": [str(data_dir.node(node))],
                "controllers": [controller],
                "quota_address": quota,
            },
        )
        for node in range(1, options.nodes + 1)
    ]
    own += [
        (
            f"gateway-{number}",
            "gateway",
            {"port": port, "gateway_id": f"gateway-{number}", "controllers": [controller]},
        )
        for number, (_, port) in enumerate(gateways, start=1)
    ]
    free = free_ports(LOOPBACK, len(own))
    return ClusterPlan(
        controller_address=controller,
        gateway_addresses=gateways,
        processes=[
            _process(
                name,
                section,
                with_own(section, base[section], settings),
                index,
                options,
                free_port=free + index,
            )
            for index, (name, section, settings) in enumerate(own)
        ],
    )


def _process(
    name: str,
    section: str,
    overrides: dict[str, Any],
    index: int,
    options: UpOptions,
    *,
    free_port: int,
) -> ProcessSpec:
    """`free_port` is for its metrics if none is set; it stays the same at restarts."""
    defaults = up_defaults(section, options)
    # Load the settings here, so that a mistake is reported in one line before anything starts.
    settings = load_settings(
        _CONFIGS[section],
        config_file=options.config_file,
        overrides=overrides,
        defaults=defaults,
    )
    chosen = {name: getattr(settings, name) for name in defaults}
    metrics: str | None = None
    port = options.metrics_port_of(settings.metrics, index)
    if port is not None:
        overrides["metrics.port"] = port = port or free_port
        check_ports(settings.metrics.host, port)
        metrics = f"{settings.metrics.host}:{port}"
    return ProcessSpec(name=name, section=section, overrides=chosen | overrides, metrics=metrics)


def _listen(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    return {"host": host, "port": int(port)}


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list | dict) else str(value)
