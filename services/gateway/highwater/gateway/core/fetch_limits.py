"""How long a Fetch waits, how much it may return, and from where the client would rather read."""

from typing import Final, NamedTuple

from highwater.gateway.core.quota_port import QuotaPort
from highwater.hop.fetch import READ_COMMITTED
from highwater.kafka.messages.fetch import FetchRequest

RESPONSE_BYTES_MAX: Final = 64 << 20
"""fetch.max.bytes of the broker; Kafka's default is 55 MiB. Files are sent, not kept in memory."""


class FetchLimits(NamedTuple):
    """A request's own limits, within the gateway's."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    rack: str = ""
    """The client's rack (KIP-392); empty if it names none."""


def limits_of(request: FetchRequest, quota: QuotaPort | None) -> FetchLimits:
    """The limits of a decoded request of a client that has this quota, if any; as in Kafka's
    `KafkaApis.handleFetchRequest`.
    """
    max_bytes = min(max(0, request.max_bytes), RESPONSE_BYTES_MAX)
    if quota is not None:
        max_bytes = min(max_bytes, quota.fetch_bytes_max)
    return FetchLimits(
        max(0, request.max_wait_ms),
        min(max(0, request.min_bytes), max_bytes),
        max_bytes,
        int(request.isolation_level == READ_COMMITTED),
        request.rack_id,
    )
