"""The setting that chooses the hop's transport."""

from enum import StrEnum

from pydantic import Field

from highwater.rpc.peer_memory import MEMORY_BYTES_MAX
from highwater.runtime.settings import SettingsGroup


class HopTransport(StrEnum):
    """Values of the setting `hop.transport`."""

    LOOP = "loop"
    GRPCIO = "grpcio"


class HopSettings(SettingsGroup):
    """Settings of the hop, the same for gateways and partition nodes."""

    transport: HopTransport = Field(
        default=HopTransport.LOOP,
        description="what carries the streams between gateways and partition nodes: loop, gRPC on "
        "the event loop's own sockets, or grpcio, as before; peers may differ",
    )
    unix_sockets: bool = Field(
        default=True,
        description="a partition node also listens on a unix socket in its first log directory, "
        "and gateways and nodes of its host and user take that instead of TCP; not with grpcio",
    )
    memory_bytes: int = Field(
        default=MEMORY_BYTES_MAX,
        ge=64 << 20,
        description="what all connections of the hop that a process accepts, and all that it opens, "
        "may each keep for their peers; beyond it the connections with the most are closed; not "
        "with grpcio",
    )
