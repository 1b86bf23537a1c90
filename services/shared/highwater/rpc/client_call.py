"""A client's call, from `Channel.stream` to its status."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from highwater.http2.connection import Connection
from highwater.http2.errors import ErrorCode
from highwater.http2.headers import Fields
from highwater.http2.ports import Buffer
from highwater.http2.stream import Stream
from highwater.rpc.message_memory import AssemblyBudget
from highwater.rpc.messages import MessageReader, send_message, too_much_waits
from highwater.rpc.metadata import (
    Metadata,
    decode_metadata,
    encode_metadata,
    encode_timeout,
    is_grpc,
)
from highwater.rpc.ports import Message, nothing
from highwater.rpc.reports import OnFailure, guarded
from highwater.rpc.status import (
    Status,
    StatusCode,
    code_of_http,
    code_of_reset,
    code_of_trailer,
    decode_details,
)

USER_AGENT: Final = "grpc-highwater/1"
EARLY_MESSAGES_MAX: Final = 1_000
"""Sent before the call is on its way; what begins so ought to wait for `on_open`."""


class CallHost(Protocol):
    """What a call needs of its channel."""

    @property
    def on_failure(self) -> OnFailure:
        """Takes the bugs of callbacks."""
        ...

    @property
    def message_bytes_max(self) -> int:
        """Of a received message."""
        ...

    def request_fields(self, path: str) -> Fields:
        """The pseudo header fields of a request."""
        ...

    def call_ended(self, call: "ClientCall") -> None:
        """The call is over."""
        ...


class ClientCall:
    """Satisfies `rpc.ports.ClientStreamCall`; also owns the call's HTTP/2 stream."""

    __slots__ = (
        "__weakref__",
        "_deadline_s",
        "_early",
        "_end",
        "_ended",
        "_half_closed",
        "_host",
        "_loop",
        "_metadata",
        "_on_end",
        "_on_message",
        "_on_open",
        "_on_writable",
        "_paused",
        "_reader",
        "_stream",
        "_timer",
        "initial_metadata",
        "path",
        "unprocessed",
        "wait_for_ready",
    )

    def __init__(
        self,
        host: CallHost,
        path: str,
        *,
        loop: asyncio.AbstractEventLoop,
        on_message: Callable[[Message], None],
        on_end: Callable[[Status], None],
        on_open: Callable[[], None] = nothing,
        on_writable: Callable[[], None] = nothing,
        metadata: Metadata = (),
        timeout_s: float | None = None,
        wait_for_ready: bool = False,
    ) -> None:
        """Raises ValueError for metadata that cannot travel."""
        self.path = path
        self.wait_for_ready = wait_for_ready
        self.unprocessed = False
        """After the end: the server certainly did not handle the call, so it may be repeated."""
        self.initial_metadata: Metadata = ()
        """The server's, once its headers are here."""
        self._host = host
        self._loop = loop
        self._on_message = on_message
        self._on_end = on_end
        self._on_open = on_open
        self._on_writable = on_writable
        self._metadata = encode_metadata(metadata)
        self._stream: Stream | None = None
        self._reader: MessageReader | None = None
        self._early: list[Buffer | Sequence[Buffer]] = []
        self._half_closed = False
        self._paused = False
        self._ended = False
        self._end: Status | None = None
        """What the trailers said, while messages are still to be handed on."""
        self._deadline_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            self._deadline_s = loop.time() + timeout_s
            self._timer = loop.call_later(max(timeout_s, 0.0), self._expired)

    @property
    def ended(self) -> bool:
        """Whether `on_end` was called."""
        return self._ended

    # ---- the caller's side ----

    @property
    def unsent_bytes(self) -> int:
        """See `StreamCall`; messages from before `on_open` are not counted."""
        return 0 if self._stream is None else self._stream.unsent_bytes

    def send(self, parts: Buffer | Sequence[Buffer]) -> None:
        """See `StreamCall`."""
        stream = self._stream
        if stream is not None:
            if stream.output.kept_bytes and not stream.local_ended and too_much_waits(stream):
                self.fail(StatusCode.RESOURCE_EXHAUSTED, "too much waits to be sent")
            else:
                send_message(stream, parts)
        elif not self._ended and not self._half_closed:
            self._early.append(parts)
            if len(self._early) > EARLY_MESSAGES_MAX:
                self.fail(StatusCode.RESOURCE_EXHAUSTED, "too many messages wait for a connection")

    def can_send(self) -> bool:
        """See `StreamCall`; before `on_open` False, which then stands for `on_writable`."""
        return self._stream is not None and self._stream.can_send()

    def half_close(self) -> None:
        """See `ClientStreamCall`."""
        self._half_closed = True
        if self._stream is not None:
            self._stream.end()

    def pause_reading(self) -> None:
        """See `StreamCall`."""
        self._paused = True
        if self._reader is not None:
            self._reader.pause()

    def resume_reading(self) -> None:
        """See `StreamCall`."""
        self._paused = False
        if self._reader is not None:
            self._reader.resume()

    def cancel(self) -> None:
        """See `StreamCall`."""
        self.fail(StatusCode.CANCELLED, "the call was cancelled here")

    # ---- the channel's side ----

    def begin(self, connection: Connection, assembly: AssemblyBudget) -> None:
        """Goes out on a connection that has room."""
        fields = self._host.request_fields(self.path)
        if self._deadline_s is not None:
            left_s = max(self._deadline_s - self._loop.time(), 0.0)
            fields.append(("grpc-timeout", encode_timeout(left_s)))
        fields += [
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", USER_AGENT),
            *self._metadata,
        ]
        stream = connection.open_stream(self, fields)
        self._stream = stream
        self._reader = MessageReader(
            stream,
            message_bytes_max=self._host.message_bytes_max,
            assembly=assembly,
            on_message=self._on_message,
            at_end=self._all_delivered,
            refuse=self.fail,
            bug=self._bug,
        )
        self._reader.paused = self._paused
        connection.adopt(stream, self, self._reader)
        early, self._early = self._early, []
        for number, parts in enumerate(early, start=1):
            send_message(stream, parts, end_stream=self._half_closed and number == len(early))
        if self._half_closed:
            stream.end()
        guarded(self._host.on_failure, self.path, self._on_open)

    def fail(self, code: StatusCode, details: str) -> None:
        """Ends the call from this end."""
        if self._stream is not None:
            self._stream.reset(ErrorCode.CANCEL)
        self._finish(Status(code, details))

    def _expired(self) -> None:
        self._timer = None
        self.fail(StatusCode.DEADLINE_EXCEEDED, "the deadline has passed")

    def _bug(self, error: Exception) -> None:
        self._host.on_failure(self.path, error)
        self.fail(StatusCode.UNKNOWN, f"{type(error).__name__} in a callback")

    def _finish(self, status: Status) -> None:
        if self._ended:
            return
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._early.clear()
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._host.call_ended(self)
        guarded(self._host.on_failure, self.path, lambda: self._on_end(status))

    # ---- StreamOwner ----

    def on_response(self, status: int, fields: Fields) -> None:
        """The response's headers; of a call without messages they may be the trailers, too."""
        known = dict(fields)
        content_type = known.get("content-type", "")
        if status != 200 or not is_grpc(content_type):
            self.fail(code_of_http(status), f"HTTP status {status}, content-type {content_type!r}")
            return
        try:
            self.initial_metadata = decode_metadata(fields)
        except ValueError as error:
            self.fail(StatusCode.INTERNAL, f"malformed metadata: {error}")
            return
        if "grpc-status" in known:
            self.on_trailers(fields)

    def on_trailers(self, fields: Fields) -> None:
        """The status, which is the call's end once all messages are handed on."""
        known = dict(fields)
        try:
            metadata = decode_metadata(fields)
        except ValueError as error:
            self.fail(StatusCode.INTERNAL, f"malformed metadata: {error}")
            return
        code = code_of_trailer(known.get("grpc-status"))
        self._end = Status(code, decode_details(known.get("grpc-message", "")), metadata)

    def on_remote_end(self) -> None:
        """No more messages come."""
        if self._reader is not None:
            self._reader.end()

    def _all_delivered(self) -> None:
        self._finish(self._end or Status(StatusCode.INTERNAL, "the stream ended without a status"))

    def on_local_end(self) -> None:
        """The half-close is on its way: the caller knows that it asked for it."""

    def on_reset(self, code: int, words: str, *, by_peer: bool) -> None:
        """RST_STREAM, or a violation of the server's."""
        if self._end is not None:
            self.on_remote_end()  # The status was in the headers, and the call is over with it.
            return
        self.unprocessed = by_peer and code == ErrorCode.REFUSED_STREAM
        self._finish(Status(code_of_reset(code), words))

    def on_lost(self, words: str, *, unprocessed: bool) -> None:
        """The connection is gone."""
        self.unprocessed = unprocessed
        self._finish(Status(StatusCode.UNAVAILABLE, words))

    def on_writable(self) -> None:
        """What had to wait has been sent."""
        guarded(self._host.on_failure, self.path, self._on_writable)

    def memory(self) -> int:
        """What the caller keeps is its own affair: it asked for it."""
        return 0
