"""One stream, as both ends of a call see it (RFC 9113, section 5.1).

The states of the RFC in terms of the flags here: open (none is set), half-closed (local) and
half-closed (remote) (`local_ended`, `remote_ended`), closed (`closed`). `StreamTable` makes the
transitions. Hot path: `send`, and the fields that `FrameReader` looks at.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from highwater.http2.errors import ErrorCode
from highwater.http2.flow_window import ReceiveWindow, SendWindow
from highwater.http2.frames import FRAME_HEADER, FRAME_HEADER_BYTES
from highwater.http2.headers import Fields
from highwater.http2.output import HIGH_WATER_BYTES, OUTGOING_BYTES, Outgoing, Output
from highwater.http2.ports import Buffer, PayloadSink, StreamOwner
from highwater.http2.settings import LocalSettings

_pack: Final = FRAME_HEADER.pack


class Nobody:
    """Owner and sink of a stream that nobody has taken, or that is over: everything is dropped."""

    def take(self, buffer: bytearray, start: int, end: int) -> None:
        """Drops payload."""

    def room(self, nbytes: int) -> memoryview | None:  # noqa: ARG002 - as the port has it.
        """None: payload that is dropped needs no memory."""
        return None

    def filled(self, nbytes: int) -> None:
        """Never called, since there is no room."""

    def on_response(self, status: int, fields: Fields) -> None:
        """Ignored."""

    def on_trailers(self, fields: Fields) -> None:
        """Ignored."""

    def on_remote_end(self) -> None:
        """Ignored."""

    def on_local_end(self) -> None:
        """Ignored."""

    def on_reset(self, code: int, words: str, *, by_peer: bool) -> None:
        """Ignored."""

    def on_lost(self, words: str, *, unprocessed: bool) -> None:
        """Ignored."""

    def on_writable(self) -> None:
        """Ignored."""

    def memory(self) -> int:
        """Nothing is kept."""
        return 0


NOBODY: Final = Nobody()


class Streams(Protocol):
    """All streams of the connection, as one of them knows them: `StreamTable`."""

    output: Output["Stream"]
    settings: LocalSettings
    receive_window: ReceiveWindow
    """The connection's."""

    def reset(self, number: int, code: ErrorCode) -> None:
        """Writes RST_STREAM."""
        ...

    def forget(self, stream: "Stream") -> None:
        """Closes a stream."""
        ...

    def give_back(self, stream: "Stream") -> None:
        """Sends the WINDOW_UPDATE frames that are due."""
        ...


class Stream:
    """Lives from its HEADERS until both ends have ended it or one has reset it."""

    __slots__ = (
        "_table",
        "body_left",
        "closed",
        "id",
        "local_ended",
        "output",
        "owner",
        "payload",
        "pending",
        "plain",
        "receive_window",
        "remote_ended",
        "response_received",
        "send_window",
        "unsent_bytes",
        "wants_room",
    )

    def __init__(self, number: int, table: Streams) -> None:
        self._table = table
        self.id = number
        self.output = table.output
        self.owner: StreamOwner = NOBODY
        self.payload: PayloadSink = NOBODY
        self.send_window = SendWindow(table.output.peer.initial_window)
        self.receive_window = ReceiveWindow(table.settings.stream_window)
        self.pending: deque[Outgoing] = deque()
        self.unsent_bytes = 0
        """Payload that waits for flow control, or for room in the connection's output."""
        self.wants_room = False
        self.local_ended = False
        """Nothing more can be sent, though something may still be pending."""
        self.remote_ended = False
        self.closed = False
        self.response_received = False
        """A client's stream has its response's headers; a server's has them from the start."""
        self.body_left = -1
        """Bytes that a content-length still announces; -1 without one."""
        self.plain = False
        """True while DATA needs no check but of the windows."""

    def send(
        self, head: bytes, parts: Sequence[Buffer], nbytes: int, end_stream: bool = False
    ) -> None:
        """Sends `head` and `parts`, of `nbytes` bytes together, or queues what does not fit.

        The parts must not change until they have left. Never blocks; see `can_send`.
        """
        if self.local_ended:
            return
        output = self.output
        ours, all_streams = self.send_window, output.window
        if (
            nbytes <= ours.left
            and nbytes <= all_streams.left
            and nbytes <= output.peer.frame_bytes_max
            and not self.pending
            and not end_stream
            and output.nbytes < HIGH_WATER_BYTES
        ):
            ours.left -= nbytes
            all_streams.left -= nbytes
            frames = output.frames
            frames.append(_pack(nbytes << 8, 0, self.id) + head)
            frames.extend(parts)
            output.nbytes += nbytes + FRAME_HEADER_BYTES
            if not output.corked:
                output.wake()
            return
        self.local_ended = end_stream
        views = deque(memoryview(part).cast("B") for part in (head, *parts) if len(part))
        self._queue(Outgoing(views, nbytes, end=end_stream, trailers=None))

    def send_headers(self, fields: Fields) -> None:
        """A response's header section, before all payload."""
        self.output.headers(self.id, fields, end_stream=False)

    def end(self, trailers: Fields | None = None) -> None:
        """Ends our side after what is pending, with trailers if there are any."""
        if not self.local_ended:
            self.local_ended = True
            self._queue(Outgoing(deque(), 0, end=True, trailers=trailers))

    def _queue(self, item: Outgoing) -> None:
        self.pending.append(item)
        self.unsent_bytes += item.nbytes
        self.output.kept_bytes += item.nbytes + OUTGOING_BYTES
        if len(self.pending) == 1:
            self.output.pump(self)

    def reset(self, code: ErrorCode) -> None:
        """Ends the stream at once; its owner hears nothing more."""
        if not self.closed:
            self._table.reset(self.id, code)
            self._table.forget(self)

    def can_send(self) -> bool:
        """False if payload would have to wait; then the owner's `on_writable` is called once."""
        if self.pending:
            self.wants_room = True
            return False
        if self.output.nbytes < HIGH_WATER_BYTES:
            return True
        self.output.relieved[self.id] = self
        return False

    def hold(self, nbytes: int) -> None:
        """Keeps payload from being given back to the peer's window; see `PayloadSink`."""
        self.receive_window.held += nbytes
        self._table.receive_window.held += nbytes

    def release(self, nbytes: int) -> None:
        """Payload that was held has been consumed, or dropped after the stream's end."""
        self.receive_window.held -= nbytes
        self._table.receive_window.held -= nbytes
        self._table.give_back(self)
