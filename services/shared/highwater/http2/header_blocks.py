"""HEADERS and CONTINUATION: gathers header blocks and hands on the sections (RFC 9113, 6.2, 6.10)."""

from typing import Final

from highwater.http2.errors import ConnectionViolationError, ErrorCode, StreamViolationError
from highwater.http2.frames import END_HEADERS, END_STREAM, PADDED, PRIORITY_FLAG, UINT32
from highwater.http2.headers import Fields, HeaderDecoder, request_of, response_of, trailers_of
from highwater.http2.stream import Stream
from highwater.http2.stream_table import StreamTable

BLOCK_BYTES_MAX: Final = 32 << 10
"""Of a compressed block: twice the list, which is what a block without compression needs at most."""
_DEPENDENCY_BYTES: Final = 5


class HeaderBlocks:
    """The header blocks of one connection."""

    def __init__(self, table: StreamTable) -> None:
        self._table = table
        self._decoder = HeaderDecoder(table.settings.header_list_bytes_max)
        self.open_stream = 0
        """The stream whose block is not complete: its CONTINUATION must come next. 0 for none."""
        self._end_stream = False
        self._block = bytearray()

    def headers(self, number: int, flags: int, payload: bytes) -> None:
        """A HEADERS frame. Raises ConnectionViolationError."""
        if not number & 1:
            raise ConnectionViolationError(
                ErrorCode.PROTOCOL_ERROR, "HEADERS of a stream that no client opens"
            )
        start = padding = 0
        if flags & PADDED:
            start = 1
            padding = payload[0] if payload else 0
        if flags & PRIORITY_FLAG:
            start += _DEPENDENCY_BYTES
        if start > len(payload):
            raise ConnectionViolationError(ErrorCode.FRAME_SIZE_ERROR, "HEADERS")
        if start + padding > len(payload):
            raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "more padding than HEADERS")
        self._end_stream = bool(flags & END_STREAM)
        self._block = bytearray(payload[start : len(payload) - padding])
        self.open_stream = number
        if flags & PRIORITY_FLAG and depends_on_itself(number, payload, start - _DEPENDENCY_BYTES):
            if not self._table.client:
                self._table.last_peer_id = max(self._table.last_peer_id, number)
            self._table.violated(number, ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
        if flags & END_HEADERS:
            self._complete()

    def continuation(self, flags: int, payload: bytes) -> None:
        """A CONTINUATION frame of `open_stream`. Raises ConnectionViolationError."""
        if not self.open_stream:
            raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        # As many as there may be of small ones: CVE-2024-27316 and its like.
        self._table.rates.control()
        if len(self._block) + len(payload) > BLOCK_BYTES_MAX:
            raise ConnectionViolationError(
                ErrorCode.ENHANCE_YOUR_CALM, "a header block without end"
            )
        self._block += payload
        if flags & END_HEADERS:
            self._complete()

    def _complete(self) -> None:
        number, self.open_stream = self.open_stream, 0
        # In any case: the block changes the table for all later ones.
        fields = self._decoder.decode(bytes(self._block))
        self._block = bytearray()
        table = self._table
        stream = table.open.get(number)
        try:
            if stream is not None:
                self._section(stream, fields)
            elif table.client or not table.is_idle(number):
                table.late(number, headers=True)
            else:
                self._request(number, fields)
        except StreamViolationError as error:
            table.violated(number, error.code, str(error))

    def _request(self, number: int, fields: Fields) -> None:
        table = self._table
        stream = table.open_peers(number)
        if stream is None:
            return
        end_stream = self._end_stream
        request = request_of(fields)
        if request.content_length >= 0:
            stream.body_left = request.content_length
            stream.plain = False
        table.owner.on_request(stream, request)
        if end_stream and not stream.closed:
            table.remote_end(stream)

    def _section(self, stream: Stream, fields: Fields) -> None:
        """A response, or trailers of either end."""
        if stream.remote_ended:
            raise StreamViolationError(ErrorCode.STREAM_CLOSED, "HEADERS after END_STREAM")
        end_stream = self._end_stream
        if not stream.response_received:
            status, plain = response_of(fields)
            if status < 200:
                if end_stream:
                    raise StreamViolationError(
                        ErrorCode.PROTOCOL_ERROR, "END_STREAM of an interim response"
                    )
                self._table.rates.control()
                return
            stream.response_received = True
            stream.plain = True
            stream.owner.on_response(status, plain)
        elif end_stream:
            stream.owner.on_trailers(trailers_of(fields))
        else:
            raise StreamViolationError(ErrorCode.PROTOCOL_ERROR, "trailers without END_STREAM")
        if end_stream and not stream.closed:
            self._table.remote_end(stream)


def depends_on_itself(number: int, payload: bytes, start: int = 0) -> bool:
    """Whether a stream dependency names its own stream, which RFC 7540, section 5.3.1, forbids.

    RFC 9113 took priorities out; otherwise they are ignored.
    """
    (dependency,) = UINT32.unpack_from(payload, start)
    return bool(dependency & 0x7FFF_FFFF == number)
