"""Settings of `highwater broker`: those of each service in the process, and a few of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeVar

from pydantic import Field, field_validator

from highwater.controller.config import ControllerConfig
from highwater.embed.up.options import assignments_by_section
from highwater.gateway.config import GatewayConfig
from highwater.model.errors import ConfigError
from highwater.partition.config import PartitionConfig
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import LogSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import ServiceSettings, load_settings

Role = Literal["gateway", "partition", "controller"]

SECTIONS: Final = ("broker", "gateway", "partition", "controller")

_Config = TypeVar("_Config", bound=ServiceSettings)


class BrokerConfig(ServiceSettings):
    """See `highwater broker --print-config`. Each service has a table of its own beside this one."""

    service: ClassVar[str] = "broker"

    roles: tuple[Role, ...] = Field(
        default=("gateway", "partition"),
        min_length=1,
        description="process.roles: the services in this process. With controller, the others need "
        "the addresses of all controllers, this one's included",
    )
    controllers: tuple[str, ...] = Field(
        default=(),
        description="host:port of every controller, for gateway and partition, unless their own "
        "tables say it",
    )
    inner: InnerSettings | None = Field(
        default=None,
        description="what the services of this process show others and ask of them, unless their "
        "own tables say it",
    )
    log: LogSettings | None = Field(
        default=None, description="how the process writes its logs; unset means as its first role"
    )
    metrics: MetricsSettings | None = Field(
        default=None, description="one endpoint for all services; unset means as its first role"
    )

    @field_validator("roles")
    @classmethod
    def _check_roles(cls, roles: tuple[Role, ...]) -> tuple[Role, ...]:
        if len(set(roles)) < len(roles):
            raise ValueError("a role is named twice")
        return roles


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedSettings:
    """All settings of one process; None for services that it does not have."""

    broker: BrokerConfig
    gateway: GatewayConfig | None
    partition: PartitionConfig | None
    controller: ControllerConfig | None

    @property
    def services(self) -> dict[Role, GatewayConfig | PartitionConfig | ControllerConfig]:
        """The services' settings, in the order of `roles`."""
        found = {
            "gateway": self.gateway,
            "partition": self.partition,
            "controller": self.controller,
        }
        return {role: config for role in self.broker.roles if (config := found[role]) is not None}

    def with_partition(self, partition: PartitionConfig) -> "CombinedSettings":
        """The same with other settings of the node."""
        return replace(self, partition=partition)

    @property
    def log(self) -> LogSettings:
        """The process's."""
        return self.broker.log or next(iter(self.services.values())).log

    @property
    def metrics(self) -> MetricsSettings:
        """The process's."""
        return self.broker.metrics or next(iter(self.services.values())).metrics

    @property
    def inner(self) -> InnerSettings:
        """That of the members among the services."""
        members = (self.gateway, self.partition)
        return next((config.inner for config in members if config is not None), InnerSettings())

    @property
    def controllers(self) -> tuple[str, ...]:
        """Addresses for the members among the services; empty if there is none."""
        members = (self.gateway, self.partition)
        return next((config.controllers for config in members if config is not None), ())


def load_combined(
    config_file: Path | None,
    overrides: Mapping[str, Mapping[str, Any]],
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
) -> CombinedSettings:
    """The settings from all sources, see `load_settings`; by section. Raises ConfigError."""
    given = defaults or {}
    broker = load_settings(
        BrokerConfig,
        config_file=config_file,
        overrides=overrides.get("broker"),
        defaults=given.get("broker"),
    )
    shown = {"inner": broker.inner.model_dump(exclude_none=True)} if broker.inner else {}
    shared = {"controllers": broker.controllers} if broker.controllers else {}

    def load(kind: type[_Config], of_members: Mapping[str, Any]) -> _Config | None:
        if kind.service not in broker.roles:
            return None
        return load_settings(
            kind,
            config_file=config_file,
            overrides=overrides.get(kind.service),
            defaults={**given.get(kind.service, {}), **of_members, **shown},
        )

    settings = CombinedSettings(
        broker=broker,
        gateway=load(GatewayConfig, shared),
        partition=load(PartitionConfig, shared),
        controller=load(ControllerConfig, {}),
    )
    _check(settings)
    return settings


def load_broker_settings(config_file: Path | None, assignments: Sequence[str]) -> CombinedSettings:
    """The settings of `highwater broker`; assignments are SECTION.NAME=VALUE. Raises ConfigError."""
    return load_combined(config_file, assignments_by_section(assignments, SECTIONS))


def _check(settings: CombinedSettings) -> None:
    gateway, partition = settings.gateway, settings.partition
    if gateway is None or partition is None:
        return
    if gateway.controllers != partition.controllers:
        raise ConfigError("gateway.controllers and partition.controllers must be the same")
    if gateway.inner != partition.inner:
        raise ConfigError("gateway.inner and partition.inner must be the same")
    if gateway.port == 0 and not gateway.single_port:
        raise ConfigError("gateway.port must not be 0: node n is served on gateway.port + n")
