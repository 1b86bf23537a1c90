"""One HTTP/2 connection, client or server, without its socket: the parts put together.

A shell asks `get_buffer`, receives into it, calls `buffer_updated`, and sends what `output.take`
returns whenever `wake` was called. Everything else are calls on the owner (`connection_owner.py`)
and on the streams' owners (`ports.py`).
"""

from collections.abc import Callable
from typing import Final

from highwater.http2.abuse import AbuseLimits, FrameRates
from highwater.http2.connection_owner import ConnectionOwner
from highwater.http2.counters import ConnectionCounters
from highwater.http2.errors import ConnectionViolationError, ErrorCode
from highwater.http2.flow_window import WINDOW_INITIAL
from highwater.http2.frame_reader import FrameReader
from highwater.http2.frames import (
    PREFACE,
    STREAM_ID_MAX,
    goaway_frame,
    ping_frame,
    settings_frame,
    window_update_frame,
)
from highwater.http2.headers import Fields
from highwater.http2.output import Output
from highwater.http2.ports import PayloadSink, StreamOwner
from highwater.http2.settings import LocalSettings, PeerSettings
from highwater.http2.stream import Stream
from highwater.http2.stream_table import StreamTable

DRAIN_PING: Final = b"draining"
"""Its ACK says that the peer has seen our first GOAWAY (RFC 9113, section 6.8)."""
STREAM_BYTES: Final = 2_048
"""Memory of an open stream without payload: itself, its owner and the sink of its payload."""
_SETTINGS_DEFAULT: Final = LocalSettings()
_LIMITS_DEFAULT: Final = AbuseLimits()


class Connection:
    """Lives as long as its socket. Single owner, on one loop or thread; not reentrant."""

    def __init__(
        self,
        owner: ConnectionOwner,
        *,
        client: bool,
        wake: Callable[[], None],
        settings: LocalSettings = _SETTINGS_DEFAULT,
        limits: AbuseLimits = _LIMITS_DEFAULT,
    ) -> None:
        """`wake` is called when there is output and the shell does not look by itself."""
        self._owner = owner
        self._settings = settings
        self._rates = FrameRates(limits)
        self.counters = ConnectionCounters()
        self._table = StreamTable(
            client=client,
            settings=settings,
            peer=PeerSettings(),
            rates=self._rates,
            counters=self.counters,
            owner=owner,
        )
        self.output = Output(
            self._table.peer, self.counters, wake=wake, local_ended=self._table.local_end
        )
        self._table.output = self.output
        self._reader = FrameReader(self._table, preface=not client)
        self.get_buffer: Callable[[], memoryview] = self._reader.get_buffer
        self._drains = False
        self._last_handled = 0
        """What GOAWAY names, once it has been sent."""

    def start(self) -> None:
        """Writes what each end begins with; before anything else."""
        table, output = self._table, self.output
        if table.client:
            output.control(PREFACE)
        output.control(settings_frame(self._settings.pairs(client=table.client)))
        if self._settings.connection_window > WINDOW_INITIAL:
            increment = self._settings.connection_window - WINDOW_INITIAL
            output.control(window_update_frame(0, increment))

    # ---- receiving ----

    def buffer_updated(self, nbytes: int, now_s: float) -> None:
        """So many bytes were received into `get_buffer()`; `now_s` is for the rates of frames."""
        if self._table.closed:
            return
        self._rates.now_s = now_s
        try:
            self._reader.received(nbytes)
        except ConnectionViolationError as error:
            self._violated(error)

    def _violated(self, error: ConnectionViolationError) -> None:
        words = f"{error.code.name}: {error}"
        self._end(error.code, str(error), f"the peer violates HTTP/2: {words}")

    def give_up(self, words: str) -> None:
        """Ends all streams: the peer is too much for us, though it keeps to the protocol."""
        if not self._table.closed:
            self.counters.given_up += 1
            self._end(ErrorCode.ENHANCE_YOUR_CALM, words, f"the connection was given up: {words}")

    def _end(self, code: ErrorCode, told: str, words: str) -> None:
        self.goaway(code, told)
        self._table.closed = True
        self._table.lose_all(words)
        self._owner.on_closing(f"{code.name}: {told}")

    def lost(self, words: str) -> None:
        """The socket is gone: all streams end."""
        self._table.closed = True
        self._table.lose_all(words)
        self._reader.close()

    # ---- streams ----

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._table.open)

    @property
    def ready(self) -> bool:
        """True once the peer's SETTINGS are here."""
        return self._table.peer.received

    @property
    def has_room(self) -> bool:
        """True if a client may open another stream."""
        return self._table.has_room

    @property
    def exhausted(self) -> bool:
        """True if a client has used all stream identifiers: it needs another connection."""
        return self._table.next_id > STREAM_ID_MAX

    @property
    def held_bytes(self) -> int:
        """Payload that waits for paused readers."""
        return self._table.receive_window.held

    def memory(self) -> int:
        """About what the peer's streams make us keep, without payload that we have received."""
        output = self.output
        nbytes = output.kept_bytes + output.nbytes
        for stream in self._table.open.values():
            nbytes += STREAM_BYTES + stream.owner.memory()
        return nbytes

    def open_stream(self, owner: StreamOwner, fields: Fields) -> Stream:
        """A client's new stream, its HEADERS written; set its payload sink before returning.

        Only while `has_room`.
        """
        assert self._table.has_room, "the caller looks at has_room"
        stream = self._table.open_own()
        stream.owner = owner
        self.output.headers(stream.id, fields, end_stream=False)
        return stream

    @staticmethod
    def adopt(stream: Stream, owner: StreamOwner, payload: PayloadSink) -> None:
        """Gives a stream its owner and the sink of its payload."""
        stream.owner = owner
        stream.payload = payload

    # ---- the connection ----

    def ping(self, payload: bytes) -> None:
        """Writes a PING of 8 bytes; its ACK calls the owner's `on_ping_ack`."""
        self.output.control(ping_frame(payload))

    def goaway(self, code: ErrorCode, words: str) -> None:
        """Writes GOAWAY with the last stream that was handled; no later ones are taken."""
        table = self._table
        if not table.draining:
            self._last_handled = table.last_peer_id
        table.draining = True
        self.counters.goaways_sent += 1
        # Streams that were refused since an earlier one do not count (section 6.8).
        self.output.control(goaway_frame(self._last_handled, code, words))

    def drain(self, words: str = "") -> None:
        """Tells the peer to open no more streams, but takes those that are on their way.

        When `DRAIN_PING` is acknowledged, or takes too long, `goaway` is to follow (section 6.8).
        """
        if not self._drains and not self._table.draining:
            self._drains = True
            self.counters.goaways_sent += 1
            self.output.control(goaway_frame(STREAM_ID_MAX, ErrorCode.NO_ERROR, words))
            self.output.control(ping_frame(DRAIN_PING))
