"""Channels to peers: one per peer and loop, with quick reconnects and careful retries."""

import json
from collections.abc import Sequence
from typing import Any, Final

import grpc
import grpc.aio

from highwater.runtime.grpc_options import (
    MESSAGE_BYTES_MAX_DEFAULT,
    GrpcOptions,
    shared_options,
)

RECONNECT_BACKOFF_MS: Final = (50, 5_000, 500)
"""Initial, minimum and maximum. gRPC's defaults (1 s, 20 s, 120 s) would outlast a failover.

Despite its name the minimum is no pause but the limit of one attempt to connect. A peer that gets no
processor time for longer would never be reached.
"""

_RETRY_POLICY: Final = {
    "maxAttempts": 3,
    "initialBackoff": "0.05s",
    "maxBackoff": "0.5s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}

_RETRY_THROTTLING: Final = {"maxTokens": 100, "tokenRatio": 0.1}
"""Stops retries to a peer that fails half of its calls, so that they do not add to its load."""


def open_channel(
    address: str,
    *,
    message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT,
    idempotent_methods: Sequence[tuple[str, str]] = (),
    options: GrpcOptions | None = None,
    credentials: grpc.ChannelCredentials | None = None,
) -> grpc.aio.Channel:
    """A channel to host:port, connecting lazily; it belongs to the running loop.

    Plain without `credentials`, TLS with them.

    `idempotent_methods` are (service, method) names, e.g. ("highwater.api.controller.v1.
    MetadataService", "GetCluster"): reads that the channel may send again by itself when the peer
    is unavailable. Never list a method that changes state: the channel cannot know whether a lost
    call had an effect.
    """
    initial, least, greatest = RECONNECT_BACKOFF_MS
    all_options: GrpcOptions = [
        *shared_options(message_bytes_max),
        ("grpc.initial_reconnect_backoff_ms", initial),
        ("grpc.min_reconnect_backoff_ms", least),
        ("grpc.max_reconnect_backoff_ms", greatest),
        # A new channel to a peer that has come back must connect at once. The process's global pool
        # would give it the former channel's connection, in the middle of a pause.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.service_config", service_config(idempotent_methods)),
        # Ignore proxies of the environment: peers are reached directly.
        ("grpc.enable_http_proxy", 0),
        *(options or []),
    ]
    if credentials is not None:
        return grpc.aio.secure_channel(address, credentials, options=all_options)
    return grpc.aio.insecure_channel(address, options=all_options)


def service_config(idempotent_methods: Sequence[tuple[str, str]]) -> str:
    """gRPC's service config (JSON): retries for the listed methods only."""
    config: dict[str, Any] = {}
    if idempotent_methods:
        names = [{"service": service, "method": method} for service, method in idempotent_methods]
        config["methodConfig"] = [{"name": names, "retryPolicy": _RETRY_POLICY}]
        config["retryThrottling"] = _RETRY_THROTTLING
    return json.dumps(config)
