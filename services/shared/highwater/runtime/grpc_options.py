"""Channel arguments that servers and channels share, each with its reason."""

from typing import Final

GrpcOptions = list[tuple[str, int | str]]

KEEPALIVE_MS: Final = 10_000
"""An idle connection is probed this often, so a silently dead peer is noticed."""

GRPCIO_KEEPALIVE_MS: Final = 2_000
"""The same between two ends of ours, where grpcio has the connection: it may not see a reset.

With the engine that we choose (`grpc_engine`) it reads again only if the kernel says that more is there
(TCP_INQ), and of a reset right behind data the kernel does not say so. Only the next write finds it, and who
waits for an answer writes nothing.
"""

KEEPALIVE_TIMEOUT_MS: Final = 5_000
"""A probe without answer for this long closes the connection."""

MESSAGE_BYTES_MAX_DEFAULT: Final = 64 << 20
"""gRPC's own 4 MiB is below what one Produce request may carry (dozens of 1 MiB batches)."""

CONNECTIONS_MAX: Final = 4_096
"""Of one server. A leak of connections, or a flood, ends here and not with the descriptors."""

HANDSHAKE_TIMEOUT_MS: Final = 10_000
"""For TLS and HTTP/2's first SETTINGS; gRPC's own limit is two minutes."""

_STREAMS_PER_CONNECTION: Final = 1_000
"""Far above what a peer opens; a leak of calls reaches this limit before memory runs out."""


def shared_options(
    message_bytes_max: int, *, keepalive_ms: int = GRPCIO_KEEPALIVE_MS
) -> GrpcOptions:
    """Arguments for both ends of a connection."""
    return [
        ("grpc.max_send_message_length", message_bytes_max),
        ("grpc.max_receive_message_length", message_bytes_max),
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        # gRPC 1.85 never starts the timer of a keepalive probe, only that of pings: a minute by default.
        ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        # Probe idle connections and quiet watches, too.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def options_to_others(message_bytes_max: int) -> GrpcOptions:
    """Arguments of a channel to a server that is not ours, such as etcd.

    Such servers treat probes without a running call, or more than one in five seconds, as abuse (GOAWAY
    too_many_pings).
    """
    options = shared_options(message_bytes_max, keepalive_ms=KEEPALIVE_MS)
    quiet = {"grpc.keepalive_permit_without_calls": 0}
    return [(name, quiet.get(name, value)) for name, value in options]


def server_options(message_bytes_max: int) -> GrpcOptions:
    """Arguments of a server."""
    return [
        *shared_options(message_bytes_max),
        # With the default, a second server on the same port would bind without an error and take
        # half of the connections.
        ("grpc.so_reuseport", 0),
        ("grpc.max_concurrent_streams", _STREAMS_PER_CONNECTION),
        ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS),
        # Clients probe as often as we do; without this the server answers GOAWAY too_many_pings.
        ("grpc.http2.min_ping_interval_without_data_ms", GRPCIO_KEEPALIVE_MS // 2),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", GRPCIO_KEEPALIVE_MS // 2),
    ]
