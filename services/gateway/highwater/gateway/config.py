"""Settings of the gateway."""

from typing import ClassVar

from pydantic import Field

from highwater.hop.settings import HopSettings
from highwater.runtime.logging import LogSettings
from highwater.runtime.metrics import MetricsSettings
from highwater.runtime.settings import ServiceSettings


class GatewayConfig(ServiceSettings):
    """See `highwater gateway --print-config`."""

    service: ClassVar[str] = "gateway"

    host: str = Field(default="127.0.0.1", description="address that clients connect to")
    port: int = Field(
        default=9092,
        ge=0,
        le=65535,
        description="bootstrap port; node n is served on port + n (see single_port)",
    )
    advertised_host: str = Field(default="", description="host told to clients; empty means `host`")
    single_port: bool = Field(
        default=False, description="one port for everything, for brokers of one node"
    )
    proxy_protocol: bool = Field(
        default=False,
        description="clients come through a balancer that sends PROXY protocol v2; connections "
        "without its header are closed, so let only the balancer reach the ports",
    )
    gateway_id: str = Field(
        default="",
        description="empty means host:port, with the machine's host name if advertised_host is set",
    )
    rack: str = Field(default="", description="empty means the machine's host name")
    controllers: tuple[str, ...] = Field(
        default=("127.0.0.1:9300",), min_length=1, description="host:port of every controller"
    )
    auto_create_topics: bool = Field(
        default=True, description="create topics that clients ask for (auto.create.topics.enable)"
    )
    default_partitions: int = Field(default=1, ge=1, description="num.partitions")
    default_replication_factor: int = Field(
        default=1, ge=1, description="default.replication.factor"
    )
    group_metadata_partitions: int = Field(
        default=50, ge=1, description="offsets.topic.num.partitions"
    )
    group_metadata_replication_factor: int = Field(
        default=-1,
        ge=-1,
        le=100,
        description="offsets.topic.replication.factor; groups wait until the cluster has that many "
        "nodes. With -1 the controller decides by the nodes that are live",
    )
    request_bytes_max: int = Field(
        default=100 << 20, ge=1024, description="socket.request.max.bytes"
    )
    in_flight_bytes_max: int = Field(
        default=64 << 20, ge=1024, description="unanswered request bytes per connection"
    )
    fetches_max: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Fetch requests that one connection has in flight; others wait their turn",
    )
    memory_budget_bytes: int = Field(
        default=256 << 20,
        ge=1 << 20,
        description="unanswered request bytes of all connections; partly received requests hold "
        "at most a quarter, replies that clients have not read another quarter",
    )
    held_produce_bytes_max: int = Field(
        default=64 << 20,
        ge=0,
        description="bytes of batches that wait for a new leader, in all; more are refused",
    )
    connections_max: int = Field(default=50_000, ge=1, description="connections at a time")
    idle_s_max: float = Field(default=600, gt=0, description="connections.max.idle.ms, in seconds")
    frame_s_max: float = Field(
        default=30, gt=0, description="seconds that a request may take to arrive in full"
    )
    sender_threads: int = Field(
        default=2, ge=1, le=64, description="threads that send large fetches from files"
    )
    drain_s: float = Field(
        default=2.0, ge=0, description="seconds that requests in flight get to end at a stop"
    )
    hop: HopSettings = HopSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
