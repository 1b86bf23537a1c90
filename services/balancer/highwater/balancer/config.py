"""Settings of the balancer."""

from typing import ClassVar, Final

from pydantic import Field, model_validator

from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import LogSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import ServiceSettings

PORTS_MAX: Final = 1001


class BalancerConfig(ServiceSettings):
    """See `highwater balancer --print-config`."""

    service: ClassVar[str] = "balancer"

    host: str = Field(default="127.0.0.1", description="address that clients connect to")
    port: int = Field(
        default=9092, ge=1, le=65535, description="bootstrap port, the first of the port block"
    )
    ports: int = Field(
        default=17,
        ge=1,
        le=PORTS_MAX,
        description="ports of the block: bootstrap and one per node",
    )
    port_last: int | None = Field(
        default=None, ge=1, le=65535, description="last port of the block, instead of `ports`"
    )
    gateways: tuple[str, ...] = Field(
        default=("127.0.0.1",),
        min_length=1,
        description="hosts of the gateways; a name means all its addresses, which are looked up "
        "again with every health check",
    )
    gateway_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="first port of every gateway's block; 0 means the same as the balancer's, "
        "as it must be unless the gateways advertise the balancer's ports",
    )
    controllers: tuple[str, ...] = Field(
        default=(),
        description="host:port of every controller, to publish the ports of instances as well; none: "
        "only the block",
    )
    inner: InnerSettings = InnerSettings()
    listener: str = Field(
        default=DEFAULT_LISTENER,
        description="the gateways' listener that instances' ports are published of",
    )
    proxy_protocol: bool = Field(
        default=True,
        description="send gateways the client's address by PROXY protocol v2; the gateways' "
        "setting of this name must be the same",
    )
    gateway_tls: bool = Field(
        default=False,
        description="the gateways' listener has TLS, which is between clients and gateways: a gateway is "
        "healthy if it takes the first step of a handshake",
    )
    connections_max: int = Field(default=10_000, ge=1, description="client connections at a time")
    connect_s: float = Field(
        default=2.0, gt=0, le=60, description="seconds that a gateway gets to accept a connection"
    )
    idle_s_max: float = Field(
        default=900,
        gt=0,
        description="seconds without a byte after which a connection is closed; the gateways' "
        "time is shorter",
    )
    check_s: float = Field(
        default=1.0, ge=0.05, le=60, description="how often each gateway's health is checked"
    )
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()

    @property
    def gateway_port_first(self) -> int:
        """The bootstrap port of every gateway."""
        return self.gateway_port or self.port

    @property
    def block(self) -> range:
        """The ports to listen on."""
        end = self.port + self.ports if self.port_last is None else self.port_last + 1
        return range(self.port, end)

    @model_validator(mode="after")
    def _check_block(self) -> "BalancerConfig":
        if self.port_last is not None:
            if "ports" in self.model_fields_set:
                raise ValueError("ports and port_last: one of them says how large the block is")
            if not 0 <= self.port_last - self.port < PORTS_MAX:
                raise ValueError(
                    f"port_last ({self.port_last}) must be port ({self.port}) or one of the "
                    f"{PORTS_MAX - 1} ports after it"
                )
        if max(self.port, self.gateway_port) + len(self.block) - 1 > 65535:
            raise ValueError("the port block does not fit below 65536")
        return self
