"""Cuts what is received into frames; DATA payload goes to its stream without a copy of ours.

Hot path: no object per DATA frame. A frame of which all is in the read buffer goes to its stream's
sink as a range of that buffer. The rest of a longer one is received where the sink says
(`PayloadSink.room`), so that only its first part is ever copied.
"""

from typing import Final

from highwater.http2.control_frames import ControlFrames
from highwater.http2.errors import ConnectionViolationError, ErrorCode
from highwater.http2.frames import (
    CONTINUATION,
    DATA,
    END_STREAM,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    PADDED,
    PREFACE,
    STREAM_ID_MAX,
)
from highwater.http2.header_blocks import BLOCK_BYTES_MAX, HeaderBlocks
from highwater.http2.stream import Stream
from highwater.http2.stream_table import StreamTable

READ_BYTES: Final = 64 << 10
"""One read; larger ones gain nothing while messages are small, and long payload bypasses it."""
CONTROL_BYTES_MAX: Final = BLOCK_BYTES_MAX
"""A control frame is kept until all of it is there."""


class FrameReader:
    """The receiving half of one connection."""

    def __init__(self, table: StreamTable, *, preface: bool) -> None:
        """`preface`: a server's peer has to begin with it."""
        self._table = table
        self._blocks = HeaderBlocks(table)
        self._control = ControlFrames(table, self._blocks)
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)
        self._kept = 0
        """Bytes at the buffer's start that are not handled yet."""
        self._preface = preface
        self._data_stream: Stream | None = None
        """The stream of the DATA frame under way; None to drop what is left of it."""
        self._left = 0
        """Payload of that frame that is still to come, without padding."""
        self._padding = 0
        self._ends_stream = False
        self._room: memoryview | None = None
        """Where the next bytes go, if not into the buffer."""

    def get_buffer(self) -> memoryview:
        """Memory for the next read; `received` must follow before the next call."""
        room, stream = self._room, self._data_stream
        if room is None:
            return self._view[self._kept :]
        if stream is None or stream.closed:
            self._room = None
            return self._view[self._kept :]
        return room

    def close(self) -> None:
        """Drops the buffer, for which a connection's circle of references would keep its memory.

        The socket is gone: nothing is received any more.
        """
        self._buffer = bytearray()
        self._view = memoryview(b"")
        self._room = None

    def received(self, nbytes: int) -> None:
        """So many bytes are in what `get_buffer` returned. Raises ConnectionViolationError."""
        if self._room is None:
            self._parse(self._kept + nbytes)
            return
        self._room = None
        stream = self._data_stream
        assert stream is not None, "there is no room without a stream"
        self._left -= nbytes
        stream.payload.filled(nbytes)
        if self._left:
            self._room = stream.payload.room(self._left)
        else:
            self._data_done()

    def _parse(self, end: int) -> None:
        buffer, table = self._buffer, self._table
        streams, window = table.open, table.receive_window
        unpack, blocks = FRAME_HEADER.unpack_from, self._blocks
        pos = 0
        if self._preface:
            pos = self._skip_preface(end)
            if self._preface:
                self._kept = end
                return
        while not table.closed:
            if self._left:
                pos = self._payload(pos, end)
                if self._left:
                    break
                continue
            body = pos + FRAME_HEADER_BYTES
            if body > end:
                break
            word, flags, number = unpack(buffer, pos)
            length = word >> 8
            after = body + length
            kind = word & 255
            if kind == DATA:
                stream = streams.get(number)
                if (
                    stream is not None
                    and stream.plain
                    and not flags
                    and length
                    and after <= end
                    and not blocks.open_stream
                ):
                    own = stream.receive_window
                    if own.left - length > own.low and window.left - length > window.low:
                        own.left -= length
                        window.left -= length
                        stream.payload.take(buffer, body, after)
                        pos = after
                        continue
                if flags & PADDED and length and body == end:
                    break
                pos = self._data_begins(number & STREAM_ID_MAX, flags, length, body)
                continue
            if length > CONTROL_BYTES_MAX:
                self._long_frame(kind, length)
                pos = body
                continue
            if after > end:
                break
            pos = after
            payload = bytes(self._view[body:after])
            self._control.receive(kind, flags, number & STREAM_ID_MAX, payload)
        if 0 < pos < end:
            buffer[: end - pos] = buffer[pos:end]
        self._kept = end - pos

    def _skip_preface(self, end: int) -> int:
        received = self._buffer[: min(end, len(PREFACE))]
        if not PREFACE.startswith(received):
            raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "no HTTP/2 preface")
        if end < len(PREFACE):
            return 0
        self._preface = False
        return len(PREFACE)

    def _long_frame(self, kind: int, length: int) -> None:
        """A frame too long to keep: dropped if its type is unknown (section 4.1)."""
        if (
            kind <= CONTINUATION
            or length > self._table.settings.frame_bytes_max
            or self._blocks.open_stream
        ):
            raise ConnectionViolationError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
        self._table.rates.control()
        self._data_stream, self._left, self._padding, self._ends_stream = None, length, 0, False

    def _data_begins(self, number: int, flags: int, length: int, body: int) -> int:
        """Any DATA frame in any state; returns where its payload begins.

        Raises ConnectionViolationError.
        """
        table = self._table
        if self._blocks.open_stream or not table.peer.received:
            raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "DATA out of place")
        if length > table.settings.frame_bytes_max:
            raise ConnectionViolationError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
        padding, payload = 0, length
        if flags & PADDED:
            if not length or self._buffer[body] >= length:
                raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "more padding than DATA")
            padding = self._buffer[body]
            payload = length - 1 - padding
            body += 1
        window = table.receive_window
        if length > window.left:
            raise ConnectionViolationError(
                ErrorCode.FLOW_CONTROL_ERROR, "more than the connection's window"
            )
        window.left -= length  # Padding, too, and payload that nobody wants (section 6.9).
        if not payload and not flags & END_STREAM:
            table.rates.control()
        stream = table.open.get(number)
        if stream is None:
            table.late(number)
        elif not self._allowed(stream, length, payload):
            stream = None
        self._data_stream = stream
        self._left, self._padding = payload, padding
        self._ends_stream = stream is not None and bool(flags & END_STREAM)
        if not payload:
            self._data_done()
        return body

    def _allowed(self, stream: Stream, length: int, payload: int) -> bool:
        """Counts a DATA frame of an open stream; False if it has cost the stream."""
        table, number = self._table, stream.id
        if stream.remote_ended:
            table.violated(number, ErrorCode.STREAM_CLOSED, "DATA after END_STREAM")
        elif stream.receive_window.left < length:
            table.violated(number, ErrorCode.FLOW_CONTROL_ERROR, "more than the stream's window")
        elif 0 <= stream.body_left < payload:
            table.violated(number, ErrorCode.PROTOCOL_ERROR, "more than the content-length")
        elif not stream.response_received:
            table.violated(number, ErrorCode.PROTOCOL_ERROR, "DATA before HEADERS")
        else:
            stream.receive_window.left -= length
            if stream.body_left > 0:
                stream.body_left -= payload
            return True
        return False

    def _payload(self, pos: int, end: int) -> int:
        """Hands on payload from the buffer; returns where it ends there."""
        nbytes = min(self._left, end - pos)
        stream = self._data_stream
        self._left -= nbytes
        if stream is not None and not stream.closed:
            if nbytes:
                stream.payload.take(self._buffer, pos, pos + nbytes)
            if self._left:
                self._room = stream.payload.room(self._left)
        if not self._left:
            self._data_done()
        return pos + nbytes

    def _data_done(self) -> None:
        """All payload of the frame has come; padding behind it is dropped like anybody's."""
        stream, ends = self._data_stream, self._ends_stream
        self._left, self._padding = self._padding, 0
        self._data_stream, self._ends_stream = None, False
        if stream is None or stream.closed:
            self._table.give_back(None)
            return
        if ends:
            self._table.remote_end(stream)
        self._table.give_back(stream)
