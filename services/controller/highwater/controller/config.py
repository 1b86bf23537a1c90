"""Settings of the controller."""

import socket
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import Field, SecretStr, model_validator

from highwater.model.ids import INTERNAL_REPLICAS_MAX
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import LogSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import ServiceSettings, SettingsGroup

COMPACT_AFTER_MS_MIN: Final = 60_000
"""Controllers that are paused or cut off for seconds must still find the changes they missed."""


class EtcdSettings(SettingsGroup):
    """Where the metadata store is, if it is etcd."""

    endpoints: tuple[str, ...] = Field(
        default=("127.0.0.1:2379",), description="host:port of each etcd member"
    )
    prefix: str = Field(default="/highwater/", description="keys in etcd begin with this")
    call_timeout_ms: int = Field(
        default=1_000,
        ge=100,
        description="an etcd member that takes longer is left for another one",
    )
    compact_after_ms: int = Field(
        default=3_600_000,
        ge=0,
        description="the active controller lets etcd forget revisions that are older; 0: never, "
        "for an etcd that compacts itself",
    )
    tls_ca_file: Path | None = Field(
        default=None, description="PEM file that etcd's certificate is checked with; turns TLS on"
    )
    tls_cert_file: Path | None = Field(
        default=None, description="PEM file of the certificate that etcd is shown"
    )
    tls_key_file: Path | None = Field(default=None, description="PEM file of its private key")
    user: str | None = Field(default=None, description="user of etcd; needs TLS")
    password: SecretStr | None = Field(default=None, description="the user's password")

    @model_validator(mode="after")
    def _check_compaction(self) -> "EtcdSettings":
        if 0 < self.compact_after_ms < COMPACT_AFTER_MS_MIN:
            raise ValueError(f"compact_after_ms must be 0 or at least {COMPACT_AFTER_MS_MIN}")
        return self

    @model_validator(mode="after")
    def _check_security(self) -> "EtcdSettings":
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file belong together")
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password belong together")
        if self.tls_ca_file is None and (self.tls_cert_file or self.user):
            raise ValueError("tls_ca_file must be set for a certificate or a user")
        return self


class ControllerConfig(ServiceSettings):
    """The controller's settings."""

    service: ClassVar[str] = "controller"

    host: str = Field("127.0.0.1", description="address of the gRPC server")
    port: int = Field(9300, ge=0, le=65535, description="its port; 0 lets the system choose")
    advertised_address: str | None = Field(
        None, description="host:port that other services are told; the server's own if not set"
    )
    controller_id: str = Field(
        default_factory=socket.gethostname,
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="unique among the controllers of the cluster",
    )
    store: Literal["sqlite", "etcd", "memory"] = Field(
        "sqlite", description="metadata store; only etcd allows more than one controller"
    )
    data_dir: Path = Field(
        Path("data/controller"), description="directory of metadata.sqlite (store = sqlite)"
    )
    etcd: EtcdSettings = Field(default_factory=EtcdSettings, description="etcd as metadata store")
    lease_ttl_ms: int = Field(
        5_000,
        ge=2_000,
        description="how long a silent active controller stays so; etcd's own elections take "
        "up to 4 s and must not cost it its office",
    )
    accept_store_loss: int = Field(
        0,
        ge=0,
        description="after the metadata store was put back to an older state: gives up what was "
        "written up to this revision, which the controller's refusal names; 0 refuses to lead",
    )
    session_timeout_ms: int = Field(
        6_000, ge=500, description="silence after which a node or gateway is fenced"
    )
    stream_grace_ms: int = Field(
        500, ge=50, description="after its watch stream closed a member has this long to return"
    )
    heartbeat_interval_ms: int = Field(
        1_000, ge=50, description="how often members are asked to send heartbeats"
    )
    default_partitions: int = Field(
        1, ge=1, le=10_000, description="partitions of topics that do not say"
    )
    default_replication_factor: int = Field(
        1, ge=1, le=100, description="replicas of topics that do not say"
    )
    internal_partitions: int = Field(
        50, ge=1, le=10_000, description="partitions of internal topics that do not say"
    )
    internal_replication_factor: int = Field(
        0,
        ge=0,
        le=100,
        description="replicas of internal topics that do not say; 0: as many as there are nodes, "
        f"at most {INTERNAL_REPLICAS_MAX}",
    )
    leader_imbalance_check_interval_ms: int = Field(
        30_000,
        ge=0,
        description="how often leadership is brought back to preferred leaders; 0: never",
    )
    drain_ms: int = Field(1_000, ge=0, description="running calls may end for so long at a stop")
    inner: InnerSettings = Field(
        default_factory=InnerSettings, description="what other services have to show"
    )
    log: LogSettings = Field(default_factory=LogSettings, description="logs")
    metrics: MetricsSettings = Field(default_factory=MetricsSettings, description="metrics")

    @model_validator(mode="after")
    def _check_times(self) -> "ControllerConfig":
        if self.session_timeout_ms < 3 * self.heartbeat_interval_ms:
            raise ValueError("session_timeout_ms must be >= 3 * heartbeat_interval_ms")
        return self
