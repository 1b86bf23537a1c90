"""One client connection without its socket: bytes in, requests out, ordered replies back.

Rules (decision 13): Produce and Fetch of a connection may overlap one another, so many
Fetch as `fetches_max` says; any other request starts when all earlier ones are done and nothing
later starts before it ends. Replies leave in request order. acks=0 takes no reply slot.

Fairness: one read may hold thousands of tiny requests, and the loop serves everyone. So only so
many of a connection start in one turn; the rest wait for the next turns and nothing more is read.

Hot path: small frames are read into one buffer that all connections of a loop share, since a read
and its parsing happen in one go; the session keeps the rest of a cut frame. Frames above
`LARGE_FRAME` are received into a buffer of their own, resident as far as it is filled.
"""

from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.frame_memory import uncleared
from highwater.gateway.core.reply import Reply, memory_of, release_parts
from highwater.gateway.core.session_ports import RequestHandler, Wire
from highwater.gateway.core.turn import Turn

LARGE_FRAME: Final = 64 * 1024
SHARED_BUFFER: Final = 256 * 1024
SCARCE_READ: Final = 4 * 1024
"""Bytes per read while the memory budget is exhausted."""
WAITING_FRAMES_MAX: Final = 128
"""Frames behind a barrier above which nothing more is read; those of one read are all kept."""
STARTS_PER_TURN_MAX: Final = 128
"""Requests of one connection that start in one loop turn; producers have 5 to 100 in flight."""
OUTSTANDING_MAX: Final = 1024
"""Requests of one connection under way; clients use 5 to 1 000 in flight."""
REPLIES_MAX: Final = 4 * OUTSTANDING_MAX
"""Replies of one connection that are awaited or wait behind one that is: its head may wait long."""
WAITING_REPLY_BYTES_MAX: Final = 64 << 20
"""What of one connection may wait behind a reply that is awaited, before the connection is closed."""
HEADER_MIN: Final = 8

_unpack_size = Struct(">i").unpack_from
_unpack_key = Struct(">h").unpack_from


class SharedInput:
    """What all sessions of one event loop share."""

    __slots__ = (
        "budget",
        "buffer",
        "fetches_max",
        "frame_bytes_max",
        "in_flight_bytes_max",
        "large_frame",
        "turn",
        "view",
    )

    def __init__(
        self,
        *,
        turn: Turn,
        budget: MemoryBudget,
        frame_bytes_max: int,
        in_flight_bytes_max: int,
        fetches_max: int = OUTSTANDING_MAX,
    ) -> None:
        """Of one connection: bytes of requests under way, and how many of them may be Fetch."""
        self.turn = turn
        self.fetches_max = fetches_max
        self.budget = budget
        self.frame_bytes_max = frame_bytes_max
        self.large_frame = min(LARGE_FRAME, frame_bytes_max)
        """Frames above it are looked at more closely."""
        self.in_flight_bytes_max = in_flight_bytes_max
        self.buffer = bytearray(SHARED_BUFFER)
        self.view = memoryview(self.buffer)


class Session:
    """See the module. States: open, barrier (one ordinary request under way), closed."""

    __slots__ = (
        "_barrier",
        "_continuing",
        "_large",
        "_large_filled",
        "_large_size",
        "output_bytes",
        "_partial",
        "_reading",
        "_waiting",
        "behind",
        "budget_wait",
        "client",
        "closed",
        "dirty",
        "fetch_shape",
        "fetching",
        "frames_received",
        "handler",
        "in_flight_bytes",
        "muted",
        "outstanding",
        "replies",
        "reply_bytes",
        "shared",
        "tail",
        "wire",
    )

    def __init__(
        self, *, shared: SharedInput, handler: RequestHandler, wire: Wire, client: Any
    ) -> None:
        self.shared = shared
        self.handler = handler
        self.wire = wire
        self.client = client
        """Who the peer is, for handlers; a session does not look at it."""
        self.tail: Any = None
        """The Produce path's memory of the last request's shape on this connection."""
        self.fetch_shape: Any = None
        """The Fetch path's, likewise."""
        self.replies: deque[Reply] = deque()
        self.outstanding = 0
        self.fetching = 0
        self.in_flight_bytes = 0
        self.frames_received = 0
        self.closed = False
        self.dirty = False
        self.muted = False
        self.behind = False
        """True while the client's socket takes no more and replies wait for it."""
        self.output_bytes = 0
        """Held against the budget: replies that have left here and wait for the socket."""
        self.reply_bytes = 0
        """Held likewise: replies to Fetch that were ready and wait behind another."""
        self._barrier = False
        self._continuing = False
        """True while the turn will call `go_on`; until then nothing else starts what waits."""
        self._waiting: deque[bytearray] = deque()
        self._partial = b""
        self._large: bytearray | None = None
        self._large_size = 0
        self._large_filled = 0
        self._reading = True
        self.budget_wait: Callable[[], None] | None = None

    # ---- input ----

    @property
    def mid_frame(self) -> bool:
        """True if part of a frame has arrived and the rest has not."""
        return bool(self._partial) or self._large is not None

    @property
    def waits_to_produce(self) -> bool:
        """True if a Produce is here that could not start yet."""
        return any(_unpack_key(frame)[0] == 0 for frame in self._waiting)

    @property
    def reading(self) -> bool:
        """False while the session wants no bytes, so that nothing can be expected of its client."""
        return self._reading

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next read goes (asyncio.BufferedProtocol)."""
        large = self._large
        if large is not None:
            return memoryview(large)[self._large_filled :]
        shared = self.shared
        partial = self._partial
        start = len(partial)
        if start:
            shared.buffer[:start] = partial
        if shared.budget.used >= shared.budget.scarce_at:
            return shared.view[start : start + SCARCE_READ]
        return shared.view[start:]

    def buffer_updated(self, nbytes: int) -> None:
        """Takes what was read: cuts out whole frames and starts them."""
        large = self._large
        if large is not None:
            self._large_filled += nbytes
            if self._large_filled == self._large_size:
                self._large = None
                self.frames_received += 1
                self._start(large)
            return
        shared = self.shared
        buffer = shared.buffer
        view = shared.view
        frame_bytes_max = shared.frame_bytes_max
        large_frame = shared.large_frame
        end = len(self._partial) + nbytes
        position = 0
        charged = 0
        frames: list[bytearray] = []
        while end - position >= 4:
            (size,) = _unpack_size(buffer, position)
            if size > large_frame or size < HEADER_MIN:
                if not HEADER_MIN <= size <= frame_bytes_max:
                    self._keep(b"", anew=True)
                    self._start_all(frames, charged)
                    self.wire.close(f"frame of {size} bytes, the limit is {frame_bytes_max}")
                    return
                if end - position - 4 < size:
                    rest = bytes(view[position + 4 : end])
                    self._keep(b"", anew=True)
                    self._start_all(frames, charged)
                    if not self.closed:
                        self._receive_large(size, rest)
                    return
            stop = position + 4 + size
            if stop > end:
                break
            frames.append(bytearray(view[position + 4 : stop]))
            charged += size
            position = stop
        # The shared buffer belongs to other sessions as soon as this call ends.
        if position < end:
            self._keep(bytes(view[position:end]), anew=position > 0)
        elif self._partial:
            self._keep(b"", anew=True)
        self._start_all(frames, charged)

    def _keep(self, partial: bytes, *, anew: bool) -> None:
        """Keeps the beginning of a small frame; `anew` if it is not that of the last read."""
        if partial or self._partial:
            self._partial = partial
            self.shared.budget.hold_begun(self, len(partial), anew=anew)

    def give_up_begun(self) -> None:
        """Others need the memory: this frame was begun before all that are not finished."""
        self._partial = b""
        if not self.closed:
            self.wire.close("its frame was begun long ago and the memory is needed")

    def _start_all(self, frames: list[bytearray], nbytes: int) -> None:
        budget = self.shared.budget
        budget.used += nbytes
        self.frames_received += len(frames)
        if len(frames) > STARTS_PER_TURN_MAX:
            rest = frames[STARTS_PER_TURN_MAX:]
            del frames[STARTS_PER_TURN_MAX:]
        else:
            rest = None
        for frame in frames:
            self._start(frame)
        if rest is not None:
            self.in_flight_bytes += sum(map(len, rest))
            self._waiting.extend(rest)
            self._continue_later()
        elif (
            self.in_flight_bytes > self.shared.in_flight_bytes_max
            or self.outstanding >= OUTSTANDING_MAX
            or budget.used >= budget.scarce_at
            or len(self.replies) >= REPLIES_MAX
        ):
            self.update_reading()

    def _receive_large(self, size: int, first: bytes) -> None:
        """Gets a buffer for a large frame, when the budget has room for it."""

        def granted() -> None:
            self.budget_wait = None
            large = uncleared(size)
            large[: len(first)] = first
            self._large = large
            self._large_size = size
            self._large_filled = len(first)
            self.update_reading()

        if self.shared.budget.reserve(size, granted):
            granted()
        else:
            self.budget_wait = granted
            self.update_reading()

    # ---- requests ----

    def _start(self, frame: bytearray) -> None:
        """Starts a request, or keeps it behind the one that must end first."""
        self.in_flight_bytes += len(frame)
        if self._barrier or self._waiting:
            self._waiting.append(frame)
            if len(self._waiting) >= WAITING_FRAMES_MAX:
                self.update_reading()
            return
        self._dispatch(frame)

    def _dispatch(self, frame: bytearray) -> None:
        if self.closed:
            self._forget(len(frame))
            return
        (key,) = _unpack_key(frame)
        if key == 0:
            self.outstanding += 1
            self.handler.produce(self, frame)
        elif key == 1:
            if self.fetching >= self.shared.fetches_max:
                self._waiting.append(frame)
                return
            self.fetching += 1
            self.outstanding += 1
            self.handler.fetch(self, frame)
        elif self.outstanding:
            self._waiting.append(frame)
        else:
            self._barrier = True
            self.outstanding += 1
            self.handler.other(self, frame)

    def go_on(self) -> None:
        """Starts requests that waited, as many as one turn may; the next turn goes on."""
        self._continuing = False
        for _ in range(STARTS_PER_TURN_MAX):
            if not self._may_go_on():
                break
            self._dispatch(self._waiting.popleft())
        else:
            if self._may_go_on():
                self._continue_later()
        if not self._reading:
            self.update_reading()

    def _may_go_on(self) -> bool:
        if not self._waiting or self._barrier or self.closed or self.behind:
            return False
        (key,) = _unpack_key(self._waiting[0])
        if key == 1:
            return self.fetching < self.shared.fetches_max
        # Keys are signed: a negative one is an ordinary request, which will be refused.
        return key == 0 or not self.outstanding

    def _continue_later(self) -> None:
        self._continuing = True
        self.shared.turn.continue_later(self)
        self.update_reading()

    def _forget(self, nbytes: int) -> None:
        self.in_flight_bytes -= nbytes
        self.shared.budget.release(nbytes)

    # ---- replies ----

    def expect(self, reply: Reply) -> None:
        """Gives `reply` the next place in the order."""
        self.replies.append(reply)

    def complete(self, reply: Reply, parts: bytes | list[Any]) -> None:
        """Makes a reply ready; it leaves once it is at the head."""
        if self.closed:
            if type(parts) is not bytes:
                release_parts(parts)
            self.finished(reply.request_bytes)
            return
        reply.parts = parts
        if not self.dirty and self.replies[0] is reply:
            self.dirty = True
            self.shared.turn.flush_later(self)
        self.finished(reply.request_bytes)

    def complete_fetch(self, reply: Reply, parts: bytes | list[Any]) -> None:
        """As `complete`, of a Fetch: the next one may start, and what waits behind another counts."""
        self.fetching -= 1
        if not self.closed and self.replies[0] is not reply:
            nbytes = memory_of(parts)
            self.reply_bytes += nbytes
            self.shared.budget.hold_replies(nbytes)
            if self.reply_bytes > WAITING_REPLY_BYTES_MAX:
                self.wire.close("too many bytes of replies wait behind another")
        self.complete(reply, parts)
        if self._waiting:
            self._look_again()

    def finished(self, request_bytes: int) -> None:
        """One request less under way; also called for those that take no reply."""
        self.outstanding -= 1
        self.in_flight_bytes -= request_bytes
        self.shared.budget.release(request_bytes)
        if self.outstanding == 0:
            self._barrier = False
            if self._waiting:
                self._look_again()
        if not self._reading:
            self.update_reading()

    def _look_again(self) -> None:
        """Something that waits may be able to start at the end of this turn."""
        if not self.dirty and not self._continuing:
            self.dirty = True
            self.shared.turn.flush_later(self)

    def flush(self) -> None:
        """Sends the replies that are ready, in order, and starts requests that waited."""
        self.dirty = False
        replies = self.replies
        if self.closed:
            return
        out: list[Any] = []
        while replies and replies[0].parts is not None:
            parts = replies.popleft().parts
            if type(parts) is bytes:
                out.append(parts)
            else:
                out.extend(parts)  # type: ignore[arg-type]
        if self.reply_bytes:
            self._count_waiting()
        if out:
            self.wire.send(out)
        if self._waiting and not self._continuing:
            self.go_on()
        if not self._reading:
            self.update_reading()

    def _count_waiting(self) -> None:
        """Replies have left: what is still held for those that wait? Few fetch so far ahead."""
        before = self.reply_bytes
        self.reply_bytes = sum(
            memory_of(reply.parts) for reply in self.replies if reply.parts is not None
        )
        self.shared.budget.hold_replies(self.reply_bytes - before)

    def output_held(self, nbytes: int, behind: bool) -> None:
        """What the socket has not taken yet, and whether it takes anything."""
        self.shared.budget.hold_replies(nbytes - self.output_bytes)
        self.output_bytes = nbytes
        if behind != self.behind:
            self.behind = behind
            if not behind and self._waiting:
                self._look_again()
            self.update_reading()

    def update_reading(self) -> None:
        """Reads while nothing speaks against it: limits, budget, mute."""
        wanted = not (
            self.muted
            or self.behind
            or self.budget_wait is not None
            or self._continuing
            or len(self._waiting) >= WAITING_FRAMES_MAX
            or self.outstanding >= OUTSTANDING_MAX
            or self.in_flight_bytes > self.shared.in_flight_bytes_max
            or len(self.replies) >= REPLIES_MAX
            or self._has_its_share
        )
        if wanted != self._reading and not self.closed:
            self._reading = wanted
            self.wire.set_reading(wanted)

    @property
    def _has_its_share(self) -> bool:
        """True while memory is scarce and Produce or Fetch of this connection are under way.

        Their end, and nobody else's, lets it read on; so it never waits for ever. Others wait long
        by themselves (JoinGroup), and the end of their client must be noticed.
        """
        return self.outstanding > 0 and not self._barrier and self.shared.budget.exhausted

    def mute(self, ms: int) -> None:
        """Takes no further requests for a while: the client is over its quota (KIP-219).

        Requests that were read before are served. A client that waits by itself, as those that
        heed throttle_time_ms do, notices nothing.
        """
        if not self.closed:
            self.muted = True
            self.update_reading()
            self.wire.unmute_after(ms)

    def unmute(self) -> None:
        """The time is over."""
        self.muted = False
        self.update_reading()

    def connection_closed(self) -> None:
        """The socket is gone: gives up what waits and returns its memory."""
        self.closed = True
        budget = self.shared.budget
        if self.budget_wait is not None:
            budget.withdraw(self.budget_wait)
            self.budget_wait = None
        if self._large is not None:
            budget.release(self._large_size)
            self._large = None
        self._keep(b"", anew=True)
        budget.hold_replies(-self.reply_bytes)
        self.reply_bytes = 0
        while self._waiting:
            self._forget(len(self._waiting.popleft()))
        for reply in list(self.replies):
            if reply.parts is None:
                reply.abandon()
            elif type(reply.parts) is not bytes:
                release_parts(reply.parts)
        self.replies.clear()
