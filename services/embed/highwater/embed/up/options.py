"""The options of `highwater up`, and the settings of each service that follow from them.

The command's own flags win over `--set`, the environment and the file (for the data directory,
ports, addresses of the cluster's own services).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

from highwater.embed.up.data_dir import SECRET_FILE
from highwater.model.errors import ConfigError
from highwater.model.ids import INTERNAL_REPLICAS_MAX
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import ServiceSettings, parse_assignments

SECTIONS: Final = ("controller", "quota", "partition", "gateway")

UP_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "controller": {},
    "quota": {},
    # The first as in Kafka's own server.properties, so that groups on a laptop need not wait three
    # seconds. Nor shall the second consumer of a group wait for its partitions until its next heartbeat.
    "partition": {
        "group_initial_rebalance_delay_ms": 0,
        "group_consumer_assignment_interval_ms": 0,
    },
    "gateway": {},
}
"""Defaults of `highwater up` that differ from the services' own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The flags of `highwater up`; see its --help."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 9092
    nodes: int = 1
    gateways: int | None = None
    separate: bool = False
    metrics_port: int | None = None
    etcd: tuple[str, ...] = ()
    log_level: str | None = None
    config_file: Path | None = None
    assignments: tuple[str, ...] = ()

    @property
    def supervised(self) -> bool:
        """True if the cluster has several processes."""
        return self.separate or self.nodes > 1 or self.gateways is not None

    @property
    def combined(self) -> bool:
        """True if each node's process has a gateway: several nodes and nothing said of gateways, or
        none of their own.
        """
        return self.gateways == 0 or (
            self.nodes > 1 and not self.separate and self.gateways is None
        )

    def metrics_port_of(self, settings: MetricsSettings, index: int = 0) -> int | None:
        """The /metrics port of the process with this number: from the flag, else its settings.

        0 means that the system chooses, None that there are no metrics.
        """
        if self.metrics_port:
            return self.metrics_port + index
        return settings.port or (0 if self.metrics_port is None else None)


def up_defaults(section: str, options: UpOptions) -> Mapping[str, Any]:
    """UP_DEFAULTS, the secret of the data directory, and defaults that depend on the number of nodes.

    The topics of coordinators wait for the nodes of their replicas, so that they do not get one
    replica when the first node is ready before the others.
    """
    secret = {"inner.secret_file": str((options.data_dir / SECRET_FILE).resolve())}
    if section != "gateway":
        return {**UP_DEFAULTS[section], **secret}
    factor = min(INTERNAL_REPLICAS_MAX, options.nodes)
    return {
        **UP_DEFAULTS[section],
        **secret,
        "group_metadata_replication_factor": factor,
        "transaction_state_replication_factor": factor,
    }


def assignments_by_section(
    assignments: Sequence[str], sections: Sequence[str] = SECTIONS
) -> dict[str, dict[str, Any]]:
    """Sorts `--set section.name=value` by section. Raises ConfigError."""
    by_section: dict[str, dict[str, Any]] = {section: {} for section in sections}
    for dotted, value in parse_assignments(assignments).items():
        section, _, name = dotted.partition(".")
        if section not in by_section or not name:
            raise ConfigError(
                f"expected SECTION.NAME=VALUE with a section of {', '.join(sections)}, got {dotted}"
            )
        by_section[section][name] = value
    return by_section


def cluster_overrides(options: UpOptions) -> dict[str, dict[str, Any]]:
    """The overrides of each section in both modes: `--set`, then the flags."""
    overrides = assignments_by_section(options.assignments)
    if options.log_level is not None:
        for section in SECTIONS:
            overrides[section]["log.level"] = options.log_level
    if options.etcd:
        overrides["controller"]["store"] = "etcd"
        overrides["controller"]["etcd.endpoints"] = list(options.etcd)
    overrides["gateway"] = with_own("gateway", overrides["gateway"], {"host": options.host})
    return overrides


def chosen_settings(settings: ServiceSettings, names: Iterable[str]) -> dict[str, Any]:
    """The settings with these dotted names, but for those without a value."""
    found: dict[str, Any] = {}
    for name in names:
        found[name] = reduce(getattr, name.split("."), settings)
    return {name: value for name, value in found.items() if value is not None}


def inner_files(settings: InnerSettings) -> dict[str, str]:
    """The files of a controller's settings, for `DataDir.write_inner`."""
    return {
        name: str(path.resolve())
        for name, path in settings.model_dump().items()
        if isinstance(path, Path)
    }


def with_own(section: str, overrides: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Adds settings that follow from the flags. Raises ConfigError if `--set` has one of them."""
    for name in own:
        if name in overrides:
            raise ConfigError(f"{section}.{name} follows from the flags of highwater up")
    return {**overrides, **own}
