"""A server's call, from its request's headers to its trailers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from highwater.http2.connection import Connection
from highwater.http2.errors import ErrorCode
from highwater.http2.headers import Fields, RequestHeaders
from highwater.http2.ports import Buffer
from highwater.http2.stream import Stream
from highwater.rpc.message_memory import AssemblyBudget
from highwater.rpc.messages import MessageReader, send_message, too_much_waits
from highwater.rpc.metadata import Metadata, decode_metadata, decode_timeout, encode_metadata
from highwater.rpc.ports import Message, ServerCallbacks, StreamHandler, nothing
from highwater.rpc.reports import OnFailure, guarded
from highwater.rpc.status import Status, StatusCode, code_of_reset, encode_details

METADATA_FIELD_BYTES: Final = 200
"""Memory of one field of metadata beside its characters."""
RESPONSE: Final = ((":status", "200"), ("content-type", "application/grpc"))
"""A response's first fields."""


class CallServer(Protocol):
    """What a call needs of its server."""

    @property
    def on_failure(self) -> OnFailure:
        """Takes the bugs of handlers."""
        ...

    @property
    def message_bytes_max(self) -> int:
        """Of a received message."""
        ...

    def call_ended(self, call: "ServerCall") -> None:
        """The call is over."""
        ...


def _early_message(_message: Message) -> None:
    raise AssertionError("messages come after the handler has returned")


class ServerCall:
    """Satisfies `rpc.ports.ServerStreamCall`; also owns the call's HTTP/2 stream."""

    __slots__ = (
        "__weakref__",
        "_assembly",
        "_callbacks",
        "_deadline_s",
        "_end",
        "_headers_sent",
        "_kept_bytes",
        "_loop",
        "_metadata",
        "_outcome",
        "_reader",
        "_server",
        "_stream",
        "_timer",
        "path",
    )

    def __init__(
        self,
        server: CallServer,
        stream: Stream,
        request: RequestHeaders,
        *,
        assembly: AssemblyBudget,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.path = request.path
        self._metadata: Metadata = ()
        self._server = server
        self._assembly = assembly
        self._loop = loop
        self._stream = stream
        self._callbacks = ServerCallbacks(on_message=_early_message)
        self._headers_sent = False
        self._end: Status | None = None
        """Set by `finish`, until the trailers are on their way."""
        self._outcome: Status | None = None
        """How the call has ended; None while it has not."""
        self._kept_bytes = 0
        """Of messages that the handler keeps, taken from the assembly's budget."""
        self._deadline_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reader: MessageReader | None = MessageReader(
            stream,
            message_bytes_max=server.message_bytes_max,
            assembly=assembly,
            on_message=_early_message,
            at_end=self._half_closed,
            refuse=self.fail,
            bug=self._bug,
        )

    def begin(self, request: RequestHeaders, handler: StreamHandler | None) -> None:
        """Takes the stream, and asks the handler for callbacks; None: nobody serves the path."""
        reader = self._reader
        assert reader is not None, "a call begins once"
        Connection.adopt(self._stream, self, reader)
        known = dict(request.fields)
        try:
            self._metadata = decode_metadata(request.fields)
            if "grpc-timeout" in known:
                timeout_s = decode_timeout(known["grpc-timeout"])
                self._deadline_s = self._loop.time() + timeout_s
                self._timer = self._loop.call_later(timeout_s, self._expired)
        except ValueError as error:
            self.finish(StatusCode.INTERNAL, f"malformed headers: {error}")
            return
        if known.get("grpc-encoding", "identity") != "identity":
            self._send_headers([("grpc-accept-encoding", "identity")])
            self.finish(StatusCode.UNIMPLEMENTED, "compressed messages are not supported")
        elif handler is None:
            self.finish(StatusCode.UNIMPLEMENTED, f"Method not found: {self.path}")
        else:
            try:
                callbacks = handler(self)
            except Exception as error:  # noqa: BLE001 - a handler's bug ends its call only.
                self._bug(error)
                return
            if self._outcome is None:
                self._callbacks = callbacks
                reader.on_message = self._keep if callbacks.keeps_messages else callbacks.on_message
            else:
                # The handler itself has ended the call, when nobody could hear of it yet.
                self._tell_end(callbacks, self._outcome)

    # ---- the handler's side ----

    @property
    def metadata(self) -> Metadata:
        """See `ServerStreamCall`."""
        return self._metadata

    @property
    def deadline_s(self) -> float | None:
        """On the loop's clock; None if the client has set none."""
        return self._deadline_s

    @property
    def unsent_bytes(self) -> int:
        """See `StreamCall`."""
        return self._stream.unsent_bytes

    def send(self, parts: Buffer | Sequence[Buffer]) -> None:
        """See `StreamCall`."""
        if not self._headers_sent:
            self.send_initial_metadata()
        stream = self._stream
        if stream.output.kept_bytes and not stream.local_ended and too_much_waits(stream):
            self.fail(StatusCode.RESOURCE_EXHAUSTED, "too much waits to be sent")
        else:
            send_message(stream, parts)

    def can_send(self) -> bool:
        """See `StreamCall`."""
        return self._stream.can_send()

    def pause_reading(self) -> None:
        """See `StreamCall`."""
        if self._reader is not None:
            self._reader.pause()

    def resume_reading(self) -> None:
        """See `StreamCall`."""
        if self._reader is not None:
            self._reader.resume()

    def send_initial_metadata(self, metadata: Metadata = ()) -> None:
        """See `ServerStreamCall`. Raises ValueError for metadata that cannot travel."""
        self._send_headers(encode_metadata(metadata))

    def _send_headers(self, fields: Fields) -> None:
        if not self._headers_sent and not self._stream.local_ended:
            self._headers_sent = True
            self._stream.send_headers([*RESPONSE, *fields])

    def finish(
        self, code: StatusCode = StatusCode.OK, details: str = "", metadata: Metadata = ()
    ) -> None:
        """See `ServerStreamCall`. Raises ValueError for metadata that cannot travel."""
        if self._outcome is not None or self._end is not None:
            return
        trailers: Fields = [] if self._headers_sent else [*RESPONSE]
        trailers.append(("grpc-status", str(int(code))))
        if details:
            trailers.append(("grpc-message", encode_details(details)))
        trailers += encode_metadata(metadata)
        self._end = Status(code, details, metadata)
        self._read_no_more()
        self._stream.end(trailers)

    def cancel(self) -> None:
        """See `StreamCall`."""
        self._reset(ErrorCode.CANCEL, Status(StatusCode.CANCELLED, "the call was cancelled here"))

    def fail(self, code: StatusCode, details: str) -> None:
        """Ends the call with an error, and without waiting for messages that are not sent."""
        if self._stream.unsent_bytes:
            reset = (
                ErrorCode.CANCEL
                if code in {StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED}
                else ErrorCode.INTERNAL_ERROR
            )
            self._reset(reset, Status(code, details))
        else:
            self.finish(code, details)

    def _reset(self, code: ErrorCode, status: Status) -> None:
        self._stream.reset(code)
        self._finished(status)

    def _expired(self) -> None:
        self._timer = None
        self.fail(StatusCode.DEADLINE_EXCEEDED, "the deadline has passed")

    def _bug(self, error: Exception) -> None:
        self._server.on_failure(self.path, error)
        self.fail(StatusCode.UNKNOWN, f"{type(error).__name__} in a handler")

    def _finished(self, status: Status) -> None:
        if self._outcome is not None:
            return
        self._outcome = status
        if self._timer is not None:
            self._timer.cancel()
        self._read_no_more()
        self._assembly.give(self._kept_bytes)
        self._kept_bytes = 0
        callbacks, self._callbacks = self._callbacks, _NO_CALLBACKS
        self._server.call_ended(self)
        self._tell_end(callbacks, status)

    def _tell_end(self, callbacks: ServerCallbacks, status: Status) -> None:
        guarded(self._server.on_failure, self.path, lambda: callbacks.on_end(status))

    def _read_no_more(self) -> None:
        reader, self._reader = self._reader, None  # Or the two would keep one another.
        if reader is not None:
            reader.close()

    def _keep(self, message: Message) -> None:
        """Hands on a message that stays in memory, if the connection's calls do not keep too much."""
        nbytes = len(message)
        if self._assembly.take(nbytes):
            self._kept_bytes += nbytes
            self._callbacks.on_message(message)
        else:
            self.fail(StatusCode.RESOURCE_EXHAUSTED, "too many requests wait on this connection")

    def _half_closed(self) -> None:
        self._guarded(self._callbacks.on_half_close)

    def _guarded(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - a handler's bug ends its call only.
            self._bug(error)

    # ---- StreamOwner ----

    def on_response(self, status: int, fields: Fields) -> None:
        """Never called: a server's streams have no response."""

    def on_trailers(self, fields: Fields) -> None:
        """A request's trailers mean nothing to gRPC."""

    def on_remote_end(self) -> None:
        """The client's half-close, behind all of its messages."""
        if self._reader is not None:
            self._reader.end()

    def on_local_end(self) -> None:
        """The trailers are on their way."""
        self._finished(self._end or Status(StatusCode.OK))

    def on_reset(self, code: int, words: str, *, by_peer: bool) -> None:  # noqa: ARG002 - the same end either way.
        """RST_STREAM, or a violation of the client's."""
        self._finished(Status(code_of_reset(code), words))

    def on_lost(self, words: str, *, unprocessed: bool) -> None:  # noqa: ARG002 - says something to clients only.
        """The connection is gone."""
        self._finished(Status(StatusCode.UNAVAILABLE, words))

    def on_writable(self) -> None:
        """What had to wait has been sent."""
        self._guarded(self._callbacks.on_writable)

    def memory(self) -> int:
        """Of metadata, and of what the handler keeps; messages count in the assembly's budget."""
        nbytes = self._callbacks.memory()
        for key, value in self._metadata:
            nbytes += len(key) + len(value) + METADATA_FIELD_BYTES
        return nbytes


_NO_CALLBACKS: Final = ServerCallbacks(on_message=lambda _message: nothing())
