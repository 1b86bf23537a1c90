"""The streams of one connection: which are open, which were, and how each of them ends."""

from typing import Final

from highwater.http2.abuse import FrameRates
from highwater.http2.connection_owner import ConnectionOwner
from highwater.http2.counters import ConnectionCounters
from highwater.http2.errors import ConnectionViolationError, ErrorCode
from highwater.http2.flow_window import ReceiveWindow
from highwater.http2.frames import STREAM_ID_MAX, reset_frame, window_update_frame
from highwater.http2.output import Output
from highwater.http2.settings import LocalSettings, PeerSettings
from highwater.http2.stream import NOBODY, Stream

RESETS_REMEMBERED: Final = 10_000
"""Streams that we reset and whose peer may not know it yet. Ten times as many as may be open."""


class StreamTable:
    """Single owner of all streams; `Connection` puts it together with what reads and writes."""

    def __init__(
        self,
        *,
        client: bool,
        settings: LocalSettings,
        peer: PeerSettings,
        rates: FrameRates,
        counters: ConnectionCounters,
        owner: ConnectionOwner,
    ) -> None:
        self.client = client
        self.settings = settings
        self.peer = peer
        self.rates = rates
        self.counters = counters
        self.owner = owner
        self.output: Output[Stream]
        """Set by the connection: the two know each other."""
        self.receive_window = ReceiveWindow(settings.connection_window)
        self.open: dict[int, Stream] = {}
        self.last_peer_id = 0
        """The highest stream that the peer has opened."""
        self.next_id = 1
        self.draining = False
        """No new streams, by our GOAWAY or the peer's."""
        self.closed = False
        """The connection is over: nothing is read any more."""
        self._reset: dict[int, None] = {}

    # ---- beginnings ----

    def open_own(self) -> Stream:
        """A client's new stream."""
        stream = self.open[self.next_id] = Stream(self.next_id, self)
        self.next_id += 2
        self.counters.streams_opened += 1
        return stream

    @property
    def has_room(self) -> bool:
        """True if a client may open another stream."""
        return (
            not self.closed
            and not self.draining
            and len(self.open) < self.peer.streams_max
            and self.next_id <= STREAM_ID_MAX
        )

    def open_peers(self, number: int) -> Stream | None:
        """The stream of a new request; None if it was refused."""
        self.last_peer_id = number
        if self.draining or len(self.open) >= self.settings.streams_max:
            # The peer may try again elsewhere (section 8.7), but not as often as it likes.
            self.rates.reset()
            self.reset(number, ErrorCode.REFUSED_STREAM)
            return None
        stream = self.open[number] = Stream(number, self)
        stream.response_received = True
        stream.plain = True
        self.counters.streams_opened += 1
        return stream

    def is_idle(self, number: int) -> bool:
        """True for a stream that nobody has opened yet (section 5.1.1)."""
        if self.client:
            return not number & 1 or number >= self.next_id
        return not number & 1 or number > self.last_peer_id

    # ---- ends ----

    def remote_end(self, stream: Stream) -> None:
        """END_STREAM of the peer."""
        if stream.body_left > 0:
            self.violated(stream.id, ErrorCode.PROTOCOL_ERROR, "less than the content-length")
            return
        stream.remote_ended = True
        stream.plain = False
        owner = stream.owner
        if stream.local_ended and not stream.pending:
            self.forget(stream)
        elif self.client:
            # gRPC: the response is complete, whatever of the request is missing.
            self.reset(stream.id, ErrorCode.NO_ERROR)
            self.forget(stream)
        owner.on_remote_end()

    def local_end(self, stream: Stream) -> None:
        """Our END_STREAM is in the output."""
        owner = stream.owner
        if stream.remote_ended:
            self.forget(stream)
        elif not self.client:
            # Section 8.1: a complete response, after which the request is of no use.
            self.reset(stream.id, ErrorCode.NO_ERROR)
            self.forget(stream)
        owner.on_local_end()

    def peer_reset(self, number: int, code: int) -> None:
        """RST_STREAM of the peer. Raises ConnectionViolationError."""
        self.counters.resets_received += 1
        stream = self.open.get(number)
        if stream is not None:
            if not self.client:
                self.rates.reset()
            owner = stream.owner
            self.forget(stream)
            owner.on_reset(code, f"RST_STREAM with error code {code}", by_peer=True)
        elif self.is_idle(number):
            raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "RST_STREAM of an idle stream")
        else:
            self.rates.control()

    def violated(self, number: int, code: ErrorCode, words: str) -> None:
        """Ends a stream for what the peer did on it. Raises ConnectionViolationError if often.

        Also for what it did on an idle one, to which nobody may send RST_STREAM (section 5.1).
        """
        if self.is_idle(number):
            raise ConnectionViolationError(code, words)
        self.rates.reset()
        self.reset(number, code)
        stream = self.open.get(number)
        if stream is not None:
            owner = stream.owner
            self.forget(stream)
            owner.on_reset(code, words, by_peer=False)

    def reset(self, number: int, code: ErrorCode) -> None:
        """Writes RST_STREAM."""
        self.counters.resets_sent += 1
        self._reset[number] = None
        if len(self._reset) > RESETS_REMEMBERED:
            del self._reset[next(iter(self._reset))]
        self.output.control(reset_frame(number, code))

    def forget(self, stream: Stream) -> None:
        """Closes a stream. What its sink holds stays held until the sink releases it."""
        if stream.closed:
            return
        stream.closed = stream.local_ended = True
        stream.plain = False
        self.output.forget(stream)
        # Also breaks the cycle of references between a stream and its owner.
        stream.owner = stream.payload = NOBODY
        del self.open[stream.id]
        self.owner.on_stream_closed()

    def late(self, number: int, *, headers: bool = False) -> None:
        """DATA or HEADERS of a stream that is not open. Raises ConnectionViolationError."""
        if self.is_idle(number):
            raise ConnectionViolationError(ErrorCode.PROTOCOL_ERROR, "a frame of an idle stream")
        if number in self._reset:
            return  # Sent before our RST_STREAM was there (section 5.4.2).
        if headers:
            raise ConnectionViolationError(ErrorCode.STREAM_CLOSED, "HEADERS of a closed stream")
        # Not the whole connection: grpcio may send DATA after its own RST_STREAM.
        self.rates.control()
        self.reset(number, ErrorCode.STREAM_CLOSED)

    def lose_all(self, words: str, *, above: int = -1) -> None:
        """Ends streams above a number, which the peer has not handled if that was given."""
        for stream in list(self.open.values()):
            if stream.id > above:
                owner = stream.owner
                self.forget(stream)
                owner.on_lost(words, unprocessed=above >= 0)

    # ---- flow control ----

    def give_back(self, stream: Stream | None) -> None:
        """Sends the WINDOW_UPDATE frames that are due."""
        due = self.receive_window.give_back()
        if due:
            self.output.control(window_update_frame(0, due))
        if stream is not None and not stream.remote_ended and not stream.closed:
            due = stream.receive_window.give_back()
            if due:
                self.output.control(window_update_frame(stream.id, due))
