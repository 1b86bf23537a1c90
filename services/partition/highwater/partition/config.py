"""Settings of a partition node."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from highwater.runtime.logging import LogSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import ServiceSettings


class PartitionConfig(ServiceSettings):
    """See `highwater partition --print-config`."""

    service: ClassVar[str] = "partition"

    host: str = Field(default="127.0.0.1", description="address of the gRPC server")
    port: int = Field(
        default=9500, ge=0, le=65535, description="its port; 0 lets the system choose"
    )
    advertised_address: str = Field(
        default="", description="host:port that gateways are told; empty means the server's own"
    )
    node_id: int = Field(
        default=-1,
        ge=-1,
        description="broker id; -1 takes the one in meta.properties, or the next free one",
    )
    rack: str = Field(default="", description="empty means the machine's host name")
    log_dirs: tuple[Path, ...] = Field(
        default=(Path("data/partition"),), min_length=1, description="directories for segments"
    )
    controllers: tuple[str, ...] = Field(
        default=("127.0.0.1:9300",), min_length=1, description="host:port of every controller"
    )
    quota_address: str = Field(
        default="127.0.0.1:9400", description="host:port of the quota service; empty for none"
    )
    group_initial_rebalance_delay_ms: int = Field(
        default=3_000, ge=0, description="group.initial.rebalance.delay.ms"
    )
    log_flush_interval_ms: int = Field(
        default=9_223_372_036_854_775_807, ge=1, description="log.flush.interval.ms"
    )
    retention_check_interval_ms: int = Field(
        default=300_000, ge=100, description="log.retention.check.interval.ms"
    )
    checkpoint_interval_ms: int = Field(
        default=60_000, ge=100, description="log.flush.offset.checkpoint.interval.ms"
    )
    drain_s: float = Field(
        default=2.0, ge=0, description="seconds that running requests get to end at a stop"
    )
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
