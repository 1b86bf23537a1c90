"""The fast path for incremental Fetch requests without a partition, and replies without one (KIP-227).

A consumer that gets nothing new asks again by the same bytes, but for correlation id and session
epoch. Layouts: Kafka's FetchRequest.json and FetchResponse.json, versions 7 to 18.
"""

from struct import Struct
from typing import Final

from highwater.gateway.core.fetch_limits import FetchLimits
from highwater.kafka.framing import decode_request_header

SESSIONS_FROM: Final = 7
"""The first version that has fetch sessions."""
_FLEXIBLE_FROM: Final = 12
_REPLICA_TAGGED_FROM: Final = 15
_HEADER_AT: Final = 8
_BEFORE_EPOCH: Final = Struct(">iiibi")
"""max_wait_ms, min_bytes, max_bytes, isolation_level, session_id; up to version 14 behind replica_id."""
_EPOCH: Final = Struct(">i")
_REPLY_7: Final = Struct(">iiihii")
_REPLY_12: Final = Struct(">iibihibb")
_SIZE_PREFIX: Final = 4


def session_epoch_at(frame: bytearray, version: int) -> int:
    """Where a request has its session epoch, an int32. The frame has been decoded before."""
    *_, body_at = decode_request_header(frame, 0)
    replica_id = 0 if version >= _REPLICA_TAGGED_FROM else 4
    return body_at + replica_id + _BEFORE_EPOCH.size


class EmptyFetchShape:
    """A request's bytes but for correlation id and session epoch, and their meaning."""

    __slots__ = ("_epoch_at", "_prefix", "_size", "_suffix", "limits", "version")

    def __init__(self, version: int, frame: bytearray, limits: FetchLimits) -> None:
        """`frame` is a decoded request that names no partition, neither to fetch nor to forget."""
        self.version = version
        self.limits = limits
        at = self._epoch_at = session_epoch_at(frame, version)
        self._size = len(frame)
        self._prefix = bytes(frame[_HEADER_AT:at])
        self._suffix = bytes(frame[at + _EPOCH.size :])

    def matches(self, frame: bytearray, epoch: int) -> bool:
        """True for the same request in this session epoch. The caller has compared the version."""
        return (
            len(frame) == self._size
            and frame.startswith(self._prefix, _HEADER_AT)
            and frame.endswith(self._suffix)
            and _EPOCH.unpack_from(frame, self._epoch_at)[0] == epoch
        )


def pack_empty_reply(
    version: int, correlation_id: int, session_id: int, throttle_ms: int, error_code: int = 0
) -> bytes:
    """A whole reply without partitions: nothing is new, or the session is refused."""
    if version >= _FLEXIBLE_FROM:
        size = _REPLY_12.size - _SIZE_PREFIX
        return _REPLY_12.pack(size, correlation_id, 0, throttle_ms, error_code, session_id, 1, 0)
    size = _REPLY_7.size - _SIZE_PREFIX
    return _REPLY_7.pack(size, correlation_id, throttle_ms, error_code, session_id, 0)
