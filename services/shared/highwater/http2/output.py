"""What is to be sent: frames in order, and payload that waits for flow control.

Hot path: no object per DATA frame but its header; payload is passed on by reference and never
joined here. The shell takes `frames` once per turn of its loop.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from highwater.http2.counters import ConnectionCounters
from highwater.http2.flow_window import SendWindow
from highwater.http2.frames import (
    DATA,
    END_STREAM,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    header_frames,
)
from highwater.http2.headers import Fields, HeaderEncoder
from highwater.http2.ports import Buffer, StreamOwner
from highwater.http2.settings import PeerSettings

HIGH_WATER_BYTES: Final = 4 << 20
"""Payload stays in its streams while so much waits for the socket: control frames and other
streams are not to stand behind all of it."""
LOW_WATER_BYTES: Final = HIGH_WATER_BYTES // 2
"""Below it, owners hear that they may send again."""
TURN_BYTES: Final = 256 << 10
"""A stream that waits sends so much before it is the next one's turn."""
OUTGOING_BYTES: Final = 1_600
"""Memory of an `Outgoing` beside its payload."""


class Outgoing:
    """Something that a stream could not send at once: payload, its end, or both."""

    __slots__ = ("end", "nbytes", "parts", "trailers")

    def __init__(
        self, parts: deque[memoryview], nbytes: int, *, end: bool, trailers: Fields | None
    ) -> None:
        self.parts = parts
        self.nbytes = nbytes
        self.end = end
        self.trailers = trailers
        """Trailers make END_STREAM a HEADERS frame."""


class SendingStream(Protocol):
    """What is known here of a stream; `Stream` says what its fields mean.

    Fields and not methods: they are read and lowered for every frame.
    """

    id: int
    owner: StreamOwner
    send_window: SendWindow
    pending: deque[Outgoing]
    unsent_bytes: int
    wants_room: bool
    closed: bool


S = TypeVar("S", bound=SendingStream)


class Output(Generic[S]):
    """The sending half of one connection, for its kind of stream."""

    __slots__ = (
        "_encoder",
        "_wake",
        "control_bytes",
        "corked",
        "counters",
        "frames",
        "kept_bytes",
        "local_ended",
        "nbytes",
        "peer",
        "relieved",
        "waiting",
        "window",
    )

    def __init__(
        self,
        peer: PeerSettings,
        counters: ConnectionCounters,
        *,
        wake: Callable[[], None],
        local_ended: Callable[[S], None],
    ) -> None:
        """`wake` asks the shell to take the frames; `local_ended` is called after END_STREAM."""
        self.peer = peer
        self.counters = counters
        self.local_ended = local_ended
        self.window = SendWindow()
        self.frames: list[Buffer] = []
        self.nbytes = 0
        """Of `frames`."""
        self.control_bytes = 0
        """Of these, all but DATA: what no flow control holds back."""
        self.kept_bytes = 0
        """Memory of what the streams could not send, all together: payload, and `OUTGOING_BYTES` each."""
        self.corked = False
        """True while the shell will look at `frames` by itself."""
        self.waiting: dict[int, S] = {}
        """Streams that wait for the connection's window or for room here, in turn."""
        self.relieved: dict[int, S] = {}
        """Streams whose owners are to hear that they may send again."""
        self._wake = wake
        self._encoder = HeaderEncoder()

    def take(self) -> list[Buffer]:
        """All frames, which are the caller's from now on."""
        frames = self.frames
        self.frames = []
        self.nbytes = self.control_bytes = 0
        return frames

    def wake(self) -> None:
        """Asks the shell to take the frames, unless it will by itself."""
        if not self.corked:
            self.corked = True
            self._wake()

    def control(self, frame: bytes) -> None:
        """A frame that flow control does not concern."""
        self.frames.append(frame)
        self.nbytes += len(frame)
        self.control_bytes += len(frame)
        if not self.corked:
            self.wake()

    def headers(self, stream_id: int, fields: Fields, *, end_stream: bool) -> None:
        """A header section; the order of these calls is that of the HPACK table."""
        block = self._encoder.encode(fields)
        for frame in header_frames(
            stream_id, block, self.peer.frame_bytes_max, end_stream=end_stream
        ):
            self.control(frame)

    def peer_settings_changed(self) -> None:
        """Follows the peer's table size."""
        self._encoder.set_table_bytes(self.peer.header_table_bytes)

    def pump(self, stream: S) -> None:
        """Sends what a stream has pending, as far as the windows and its turn allow."""
        pending = stream.pending
        budget = TURN_BYTES if self.waiting else HIGH_WATER_BYTES
        blocked = False
        while pending:
            item = pending[0]
            flagged = False
            if item.nbytes:
                left = self.window.left
                if self.nbytes >= HIGH_WATER_BYTES or budget <= 0:
                    break
                room = min(item.nbytes, stream.send_window.left, left, self.peer.frame_bytes_max)
                if room <= 0:
                    self.counters.stalls += 1
                    blocked = left > 0
                    break
                flagged = item.end and item.trailers is None and room == item.nbytes
                self._data(stream, item, room, END_STREAM if flagged else 0)
                budget -= room
                if item.nbytes:
                    continue
            pending.popleft()
            self.kept_bytes -= OUTGOING_BYTES
            if item.end:
                if item.trailers is not None:
                    self.headers(stream.id, item.trailers, end_stream=True)
                elif not flagged:
                    self.control(FRAME_HEADER.pack(DATA, END_STREAM, stream.id))
                self.local_ended(stream)
        self.waiting.pop(stream.id, None)
        if not pending:
            if stream.wants_room and not stream.closed:
                self.relieved[stream.id] = stream
        elif not blocked:
            # To the end of the row. A stream whose own window is used up waits for WINDOW_UPDATE.
            self.waiting[stream.id] = stream

    def _data(self, stream: S, item: Outgoing, room: int, flags: int) -> None:
        stream.send_window.left -= room
        self.window.left -= room
        stream.unsent_bytes -= room
        self.kept_bytes -= room
        item.nbytes -= room
        frames, parts = self.frames, item.parts
        frames.append(FRAME_HEADER.pack(room << 8, flags, stream.id))
        self.nbytes += room + FRAME_HEADER_BYTES
        while room:
            part = parts[0]
            if len(part) <= room:
                room -= len(part)
                parts.popleft()
            else:
                parts[0] = part[room:]
                part = part[:room]
                room = 0
            frames.append(part)
        if not self.corked:
            self.wake()

    def refill(self) -> None:
        """Moves on what waits, after the frames were taken or a window has grown."""
        while self.waiting and self.nbytes < HIGH_WATER_BYTES and self.window.left > 0:
            before = self.nbytes
            for stream in list(self.waiting.values()):
                self.pump(stream)
            if self.nbytes == before:
                break
        if self.relieved and self.nbytes < LOW_WATER_BYTES:
            relieved = list(self.relieved.values())
            self.relieved.clear()
            for stream in relieved:
                stream.wants_room = False
                stream.owner.on_writable()

    def forget(self, stream: S) -> None:
        """Drops what a stream has not sent."""
        self.kept_bytes -= stream.unsent_bytes + OUTGOING_BYTES * len(stream.pending)
        stream.pending.clear()
        stream.unsent_bytes = 0
        self.waiting.pop(stream.id, None)
        self.relieved.pop(stream.id, None)
