"""SETTINGS: ours, which are constant, and the peer's, which it may change (RFC 9113, section 6.5)."""

from dataclasses import dataclass
from typing import Final

from highwater.http2.errors import ConnectionViolationError, ErrorCode
from highwater.http2.flow_window import WINDOW_INITIAL, WINDOW_MAX
from highwater.http2.frames import FRAME_BYTES_LIMIT, FRAME_BYTES_MIN, SETTING, STREAM_ID_MAX

HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
MAX_HEADER_LIST_SIZE: Final = 0x6

HEADER_TABLE_BYTES: Final = 4096
"""HPACK's initial size; more would not help the few headers of gRPC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """What this end allows its peer; sizes in bytes."""

    stream_window: int = 16 << 20
    """What a peer may have under way on one stream; as much memory waits while it is paused."""
    connection_window: int = 64 << 20
    """The same of all streams together. No less than a stream's."""
    frame_bytes_max: int = 2 << 20
    """A message of 1 MiB and what its batch header adds come in one frame."""
    header_list_bytes_max: int = 16 << 10
    """gRPC's own default is 8 KiB of metadata as a soft and 16 KiB as a hard limit."""
    streams_max: int = 1_000
    """Far above what a peer opens; a leak of calls reaches this limit before memory runs out."""

    def __post_init__(self) -> None:
        """A peer that has not read our SETTINGS yet would send more than a smaller window."""
        assert WINDOW_INITIAL <= self.stream_window <= self.connection_window <= WINDOW_MAX
        assert FRAME_BYTES_MIN <= self.frame_bytes_max <= FRAME_BYTES_LIMIT

    def pairs(self, *, client: bool) -> list[tuple[int, int]]:
        """What the first SETTINGS frame says. A client takes no pushed streams."""
        role = (ENABLE_PUSH, 0) if client else (MAX_CONCURRENT_STREAMS, self.streams_max)
        return [
            role,
            (INITIAL_WINDOW_SIZE, self.stream_window),
            (MAX_FRAME_SIZE, self.frame_bytes_max),
            (MAX_HEADER_LIST_SIZE, self.header_list_bytes_max),
        ]


class PeerSettings:
    """The peer's values: the RFC's initial ones until its first SETTINGS is here."""

    __slots__ = (
        "frame_bytes_max",
        "header_table_bytes",
        "initial_window",
        "received",
        "streams_max",
    )

    def __init__(self) -> None:
        self.received = False
        self.header_table_bytes = HEADER_TABLE_BYTES
        self.streams_max = STREAM_ID_MAX
        self.initial_window = WINDOW_INITIAL
        self.frame_bytes_max = FRAME_BYTES_MIN

    def apply(self, payload: bytes, *, from_server: bool) -> None:
        """Takes the values of a SETTINGS frame in order; unknown identifiers are ignored.

        Raises ConnectionViolationError.
        """
        if len(payload) % SETTING.size:
            raise ConnectionViolationError(ErrorCode.FRAME_SIZE_ERROR, "length of SETTINGS")
        for identifier, value in SETTING.iter_unpack(payload):
            if identifier == INITIAL_WINDOW_SIZE:
                if value > WINDOW_MAX:
                    raise ConnectionViolationError(
                        ErrorCode.FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE"
                    )
                self.initial_window = value
            elif identifier == MAX_FRAME_SIZE:
                if not FRAME_BYTES_MIN <= value <= FRAME_BYTES_LIMIT:
                    raise ConnectionViolationError(
                        ErrorCode.PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE"
                    )
                self.frame_bytes_max = value
            elif identifier == HEADER_TABLE_SIZE:
                self.header_table_bytes = min(value, HEADER_TABLE_BYTES)
            elif identifier == MAX_CONCURRENT_STREAMS:
                self.streams_max = value
            elif identifier == ENABLE_PUSH and value > (0 if from_server else 1):
                # Section 6.5.2: a server must not send 1, and nobody more than 1.
                raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH")
        self.received = True
