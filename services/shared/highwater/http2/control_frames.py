"""All frames but DATA: checks each and carries it out (RFC 9113, section 6)."""

from collections.abc import Callable
from typing import Final

from highwater.http2.errors import ConnectionViolationError, ErrorCode
from highwater.http2.frames import (
    ACK,
    CONTINUATION,
    GOAWAY,
    GOAWAY_WORDS_MAX,
    HEADERS,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ACK,
    STREAM_ID_MAX,
    UINT32,
    WINDOW_UPDATE,
    ping_frame,
)
from highwater.http2.header_blocks import HeaderBlocks, depends_on_itself
from highwater.http2.stream_table import StreamTable

PAID_INCREMENT: Final = 4_096
"""A WINDOW_UPDATE from here on is paid for by the payload that we have sent."""


class ControlFrames:
    """The control frames of one connection, in the order of arrival."""

    def __init__(self, table: StreamTable, blocks: HeaderBlocks) -> None:
        self._table = table
        self._blocks = blocks
        self._handlers: dict[int, Callable[[int, int, bytes], None]] = {
            HEADERS: self._headers,
            PRIORITY: self._priority,
            RST_STREAM: self._reset,
            SETTINGS: self._settings,
            PUSH_PROMISE: self._push_promise,
            PING: self._ping,
            GOAWAY: self._goaway,
            WINDOW_UPDATE: self._window_update,
            CONTINUATION: self._continuation,
        }

    def receive(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Carries out one frame. Raises ConnectionViolationError."""
        blocks = self._blocks
        if blocks.open_stream and (kind != CONTINUATION or number != blocks.open_stream):
            raise ConnectionViolationError(
                ErrorCode.PROTOCOL_ERROR, "a frame inside a header block"
            )
        if not self._table.peer.received and (kind != SETTINGS or flags & ACK):
            raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "SETTINGS must come first")
        handler = self._handlers.get(kind)
        if handler is None:
            self._table.rates.control()  # Ignored, section 4.1.
        else:
            handler(flags, number, payload)

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        self._blocks.headers(number, flags, payload)

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:  # noqa: ARG002 - `receive` has compared it.
        self._blocks.continuation(flags, payload)

    def _priority(self, flags: int, number: int, payload: bytes) -> None:  # noqa: ARG002 - it has none.
        self._table.rates.control()
        if not number:
            raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "PRIORITY of stream 0")
        if len(payload) != 5:
            self._table.violated(number, ErrorCode.FRAME_SIZE_ERROR, "PRIORITY")
        elif depends_on_itself(number, payload):
            self._table.violated(number, ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _reset(self, flags: int, number: int, payload: bytes) -> None:  # noqa: ARG002 - it has none.
        self._check(payload, 4, "RST_STREAM")
        self._table.peer_reset(number, UINT32.unpack(payload)[0])

    def _push_promise(self, flags: int, number: int, payload: bytes) -> None:  # noqa: ARG002 - refused as it is.
        raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE")

    def _ping(self, flags: int, number: int, payload: bytes) -> None:
        self._of_connection(number, "PING")
        self._check(payload, 8, "PING")
        self._table.rates.control()
        if flags & ACK:
            self._table.owner.on_ping_ack(payload)
        else:
            self._table.output.control(ping_frame(payload, ack=True))

    def _settings(self, flags: int, number: int, payload: bytes) -> None:
        table = self._table
        self._of_connection(number, "SETTINGS")
        table.rates.control()
        if flags & ACK:
            self._check(payload, 0, "SETTINGS with ACK")
            return
        peer, output = table.peer, table.output
        window = peer.initial_window
        peer.apply(payload, from_server=table.client)
        change = peer.initial_window - window
        for stream in table.open.values():
            if not stream.send_window.grow(change):
                raise ConnectionViolationError(
                    ErrorCode.FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE"
                )
        output.peer_settings_changed()
        # Before any DATA that uses a larger window: grpcio counts it as given from here on only.
        output.control(SETTINGS_ACK)
        if change > 0:
            for stream in list(table.open.values()):
                output.pump(stream)
        table.owner.on_settings()

    def _goaway(self, flags: int, number: int, payload: bytes) -> None:  # noqa: ARG002 - it has none.
        self._of_connection(number, "GOAWAY")
        if len(payload) < 8:
            raise ConnectionViolationError(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY")
        table = self._table
        table.rates.control()
        table.counters.goaways_received += 1
        last = UINT32.unpack_from(payload)[0] & STREAM_ID_MAX
        (code,) = UINT32.unpack_from(payload, 4)
        words = payload[8 : 8 + GOAWAY_WORDS_MAX].decode("utf-8", "replace")
        if table.client:
            table.draining = True
            table.lose_all(f"GOAWAY before it was handled: {words}", above=last)
        table.owner.on_goaway(code, words)

    def _window_update(self, flags: int, number: int, payload: bytes) -> None:  # noqa: ARG002 - it has none.
        self._check(payload, 4, "WINDOW_UPDATE")
        table = self._table
        increment = UINT32.unpack(payload)[0] & STREAM_ID_MAX
        if increment < PAID_INCREMENT:
            table.rates.control()
        if not number:
            if not increment:
                raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")
            if not table.output.window.grow(increment):
                raise ConnectionViolationError(
                    ErrorCode.FLOW_CONTROL_ERROR, "the connection's window overflows"
                )
            table.output.refill()
            return
        stream = table.open.get(number)
        if stream is None:
            if table.is_idle(number):
                raise ConnectionViolationError(
                    ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE of an idle stream"
                )
        elif not increment:
            table.violated(number, ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by 0")
        elif not stream.send_window.grow(increment):
            table.violated(number, ErrorCode.FLOW_CONTROL_ERROR, "the stream's window overflows")
        elif stream.pending:
            table.output.pump(stream)

    def _check(self, payload: bytes, nbytes: int, name: str) -> None:
        if len(payload) != nbytes:
            raise ConnectionViolationError(ErrorCode.FRAME_SIZE_ERROR, f"length of {name}")

    def _of_connection(self, number: int, name: str) -> None:
        if number:
            raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, f"{name} of a stream")
