"""Settings of the quota service."""

from typing import ClassVar, Literal

from pydantic import Field

from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import LogSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import ServiceSettings


class QuotaConfig(ServiceSettings):
    """See `highwater quota --print-config`."""

    service: ClassVar[str] = "quota"

    host: str = Field(default="127.0.0.1", description="address of the gRPC server")
    port: int = Field(
        default=9400, ge=0, le=65535, description="its port; 0 lets the system choose"
    )
    controllers: tuple[str, ...] = Field(
        default=("127.0.0.1:9300",), min_length=1, description="host:port of every controller"
    )
    policy: Literal["static", "ckafka", "waterfill"] = Field(
        default="waterfill",
        description="how limits are divided among nodes; waterfill: by demand, static: by number of "
        "leaders, ckafka: by the flow of the last tick, which may give out more than the limit",
    )
    tick_ms: int = Field(
        default=1000, ge=10, le=60_000, description="how often nodes report and get their shares"
    )
    drain_s: float = Field(
        default=2.0, ge=0, description="seconds that running calls get to end at a stop"
    )
    inner: InnerSettings = InnerSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
