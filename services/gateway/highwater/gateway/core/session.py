"""One client connection without its socket: bytes in, requests out, ordered replies back.

A session is three machines side by side, and one set of reasons not to read (`reading`):

    machine   state            what happens                      next
    input     between frames   part of a small frame             in a small frame
    (frame_   between frames   a large frame begins, room        in a large frame
    input)    between frames   a large frame begins, no room     waiting for memory
              waiting          the budget has room               in a large frame
              in a frame       its last byte                     between frames; it starts or waits
              any              a bad size; memory is needed      closed
    requests  open             Produce, Fetch                    open: they overlap
              open             any other, something in flight    open: it waits, and all behind it
              open             any other, nothing in flight      barrier
              barrier          it ends                           open: the waiting requests start
    output    idle             the reply at the head is ready    due: a flush at the turn's end
              due              flush                             idle: the ready replies left
              idle, due        the socket is full                behind: no waiting request starts
              behind           the socket has room               due
    any       any              the connection is lost            closed: releases memory and files

Rules (decision 13): at most `fetches_max` Fetch requests of a connection are in flight. Replies
leave in request order. acks=0 takes no reply slot.

Fairness: one read may hold thousands of tiny requests, and the loop serves all connections. So only
some of a connection, and of all, start in one turn; the rest wait, and nothing more is read there.

Hot path: no object per request except its frame and its reply. Requests are counted when their
replies leave, those of one API and one loop turn together (`meters`).
"""

from collections import deque
from struct import Struct
from typing import Final, Generic, TypeVar

from highwater.gateway.core import reading
from highwater.gateway.core.fetch_shape import FetchShape
from highwater.gateway.core.frame_input import FrameInput
from highwater.gateway.core.meters import FETCH, PRODUCE
from highwater.gateway.core.produce_shape import ProduceShape
from highwater.gateway.core.quota_port import QuotaPort
from highwater.gateway.core.reply import Part, Reply, length_of, memory_of, release_parts
from highwater.gateway.core.session_ports import RequestHandler, Wire
from highwater.gateway.core.shared_input import OUTSTANDING_MAX, SharedInput
from highwater.gateway.core.turn import NS_PER_MS, SESSION_STARTS_MAX

WAITING_FRAMES_MAX: Final = 128
"""If so many frames wait behind a barrier, reading stops; frames of one read are all kept."""
REPLIES_MAX: Final = 4 * OUTSTANDING_MAX
"""Replies of one connection that are not ready or wait behind one that is not, perhaps for long."""
WAITING_REPLY_BYTES_MAX: Final = 64 << 20
"""Replies that wait behind an unready one hold at most this, or the connection is closed."""

_unpack_key = Struct(">h").unpack_from

Client = TypeVar("Client")
"""What handlers know of the client; a session does not read it."""
Topic = TypeVar("Topic")
"""The routes of a topic, which request shapes hold; a session does not read it."""


class Session(Generic[Client, Topic]):
    """See the module. Lives from accept to close; `connection_closed` is its end."""

    __slots__ = (
        "_barrier",
        "_unanswered",
        "_waiting",
        "arrived_ns",
        "buffer_updated",
        "client",
        "closed",
        "dirty",
        "fetch_shape",
        "fetching",
        "frame_bytes_max",
        "get_buffer",
        "handler",
        "in_flight_bytes",
        "input",
        "output_bytes",
        "outstanding",
        "paused",
        "quota",
        "replies",
        "reply_bytes",
        "send_parts",
        "shared",
        "tail",
        "wire",
    )

    def __init__(
        self,
        *,
        shared: SharedInput,
        handler: "RequestHandler[Session[Client, Topic]]",
        wire: Wire,
        client: Client,
    ) -> None:
        self.shared = shared
        self.handler = handler
        self.wire = wire
        self.client = client
        self.quota: QuotaPort | None = None
        self.frame_bytes_max = shared.frame_bytes_max
        """A smaller one than all others' as long as the client has not logged in (`login`)."""
        self.input = FrameInput(self, shared)
        # Called at each read and flush; one lookup less saves a hundredth of a small request.
        self.send_parts = wire.send
        self.get_buffer = self.input.get_buffer
        self.buffer_updated = self.input.buffer_updated
        self.arrived_ns = 0
        """When the frame that is being started arrived, on the turn's clock."""
        self.tail: ProduceShape[Topic] | None = None
        """The shape of the connection's last Produce request."""
        self.fetch_shape: FetchShape[Topic] | None = None
        """The shape of the connection's last Fetch request."""
        self.replies: deque[Reply] = deque()
        self.outstanding = 0
        """Requests in flight."""
        self.fetching = 0
        """Fetch requests among them."""
        self.in_flight_bytes = 0
        """Bytes of requests in flight, and of frames that wait."""
        self.closed = False
        self.dirty = False
        """True while the turn will call `flush`."""
        self.paused = 0
        """Reasons not to read (`reading`)."""
        self.output_bytes = 0
        """Bytes counted in the budget: replies that were sent and wait for the socket."""
        self.reply_bytes = 0
        """Bytes counted in the budget: Fetch replies that are ready and wait behind another."""
        self._barrier = False
        self._unanswered: list[Reply] = []
        """Completed Produce requests with acks=0; counted at the turn's end."""
        self._waiting: deque[tuple[bytearray, int]] = deque()
        """Whole frames that may not start yet, with their arrival times."""

    # ---- requests ----

    @property
    def frames_received(self) -> int:
        """The number of whole frames so far."""
        return self.input.frames_received

    @property
    def mid_frame(self) -> bool:
        """True if part of a frame has arrived and the rest has not."""
        return self.input.mid_frame

    @property
    def waits_to_produce(self) -> bool:
        """True if a Produce request waits to start."""
        return any(_unpack_key(frame)[0] == PRODUCE for frame, _ in self._waiting)

    def start_one(self, frame: bytearray) -> None:
        """`start_all` for one frame, large or small: most reads complete just one."""
        shared = self.shared
        self.in_flight_bytes += len(frame)
        if self._waiting or not self._start(frame):
            self._waiting.append((frame, self.arrived_ns))
        if (
            len(self._waiting) >= WAITING_FRAMES_MAX
            or self.in_flight_bytes > shared.in_flight_bytes_max
            or self.outstanding >= OUTSTANDING_MAX
            or shared.budget.used >= shared.budget.scarce_at
            or len(self.replies) >= REPLIES_MAX
        ):
            self.update_reading()

    def start_all(self, frames: list[bytearray], nbytes: int) -> None:
        """Starts the frames of one read, up to the limit of a turn; the others wait."""
        shared = self.shared
        self.in_flight_bytes += nbytes
        waiting = self._waiting
        turn = shared.turn
        rest = None
        if len(frames) > (most := min(SESSION_STARTS_MAX, turn.starts_left)):
            rest = frames[most:]
            del frames[most:]
        turn.starts_left -= len(frames)
        handler = self.handler
        fetches_max = shared.fetches_max
        for frame in frames:
            # As in `_start`, which handles the rare cases: this saves a call.
            if not waiting and not self._barrier and not self.closed:
                (key,) = _unpack_key(frame)
                if key == PRODUCE:
                    self.outstanding += 1
                    handler.produce(self, frame)
                    continue
                if key == FETCH and self.fetching < fetches_max:
                    self.fetching += 1
                    self.outstanding += 1
                    handler.fetch(self, frame)
                    continue
            if waiting or not self._start(frame):
                waiting.append((frame, self.arrived_ns))
        if rest is not None:
            waiting.extend((frame, self.arrived_ns) for frame in rest)
            self._continue_later()
        elif (
            len(waiting) >= WAITING_FRAMES_MAX
            or self.in_flight_bytes > shared.in_flight_bytes_max
            or self.outstanding >= OUTSTANDING_MAX
            or shared.budget.used >= shared.budget.scarce_at
            or len(self.replies) >= REPLIES_MAX
        ):
            self.update_reading()

    def _start(self, frame: bytearray) -> bool:
        """Starts a request if it may start now; True if the frame does not have to wait."""
        if self.closed:
            self._forget(len(frame))
            return True
        if self._barrier:
            return False
        (key,) = _unpack_key(frame)
        if key == PRODUCE:
            self.outstanding += 1
            self.handler.produce(self, frame)
        elif key == FETCH:
            if self.fetching >= self.shared.fetches_max:
                return False
            self.fetching += 1
            self.outstanding += 1
            self.handler.fetch(self, frame)
        elif self.outstanding:
            return False
        else:
            # Keys are signed: a negative key is an ordinary request, which will be refused.
            self._barrier = True
            self.outstanding += 1
            self.handler.other(self, frame)
        return True

    def go_on(self, starts_max: int) -> None:
        """Starts waiting requests, at most so many; the next turn continues."""
        waiting = self._waiting
        turn = self.shared.turn
        self.shared.now_ms = turn.clock_ns() // NS_PER_MS
        for _ in range(starts_max):
            if not waiting or self.closed or self.paused & reading.SOCKET_FULL:
                break
            frame, self.arrived_ns = first = waiting.popleft()
            if not self._start(frame):
                waiting.appendleft(first)
                break
            turn.starts_left -= 1
        else:
            if waiting:
                self._continue_later()
                return
        self.resume(reading.TURN_OVER)

    def _continue_later(self) -> None:
        self.shared.turn.continue_later(self)
        self.pause(reading.TURN_OVER)

    def _forget(self, nbytes: int) -> None:
        self.in_flight_bytes -= nbytes
        self.shared.budget.release(nbytes)

    # ---- replies ----

    def expect(self, reply: Reply) -> None:
        """Gives `reply` the next place in the order."""
        self.replies.append(reply)

    def complete(self, reply: Reply, parts: bytes | list[Part]) -> None:
        """Makes a reply ready; it leaves once it is at the head."""
        if self.closed:
            if not isinstance(parts, bytes):
                release_parts(parts)
            self.finished(reply.request_bytes)
            return
        reply.parts = parts
        if not self.dirty and self.replies[0] is reply:
            self.dirty = True
            self.shared.turn.flush_later(self)
        self.finished(reply.request_bytes)

    def complete_fetch(self, reply: Reply, parts: bytes | list[Part]) -> None:
        """`complete` for a Fetch: the next one may start, and bytes behind another reply count."""
        self.fetching -= 1
        if not self.closed and self.replies[0] is not reply:
            nbytes = len(parts) if isinstance(parts, bytes) else memory_of(parts)
            self.reply_bytes += nbytes
            self.shared.budget.hold_replies(nbytes)
            if self.reply_bytes > WAITING_REPLY_BYTES_MAX:
                self.wire.close("too many bytes of replies wait behind another")
        if self.closed:
            self.complete(reply, parts)
            return
        reply.parts = parts
        if not self.dirty and self.replies[0] is reply:
            self.dirty = True
            self.shared.turn.flush_later(self)
        self.finished(reply.request_bytes)
        if self._waiting:
            self._look_again()

    def complete_unanswered(self, reply: Reply) -> None:
        """Completes a Produce with acks=0, which has no place among the replies."""
        self._unanswered.append(reply)
        if not self.dirty:
            self.dirty = True
            self.shared.turn.flush_later(self)
        self.finished(reply.request_bytes)

    def finished(self, request_bytes: int) -> None:
        """Ends a request in flight; also called for those without a reply."""
        self.outstanding -= 1
        self.in_flight_bytes -= request_bytes
        budget = self.shared.budget
        budget.used -= request_bytes
        if budget.scarce_at <= 0:
            budget.release(0)  # Large frames may wait for room.
        if self.outstanding == 0:
            self._barrier = False
            if self._waiting:
                self._look_again()
        if self.paused:
            self.update_reading()

    def _look_again(self) -> None:
        """Lets waiting requests start at the end of this turn, if they can."""
        if not self.dirty and not self.paused & reading.TURN_OVER:
            self.dirty = True
            self.shared.turn.flush_later(self)

    def flush(self) -> None:
        """Sends the replies that are ready, in order, and starts requests that waited."""
        self.dirty = False
        if self._unanswered:
            self._count_unanswered()
        if self.closed:
            return
        replies = self.replies
        shared = self.shared
        departures = shared.departures
        out: list[Part] = []
        requests = bytes_in = bytes_out = 0
        while replies:
            reply = replies[0]
            parts = reply.parts
            if parts is None:
                break
            if (
                reply.arrived_ns is not departures.arrived_ns
                or reply.api_key is not departures.api_key
            ):
                if requests:  # Those counted before the new kind.
                    departures.requests += requests
                    departures.bytes_in += bytes_in
                    departures.bytes_out += bytes_out
                    requests = bytes_in = bytes_out = 0
                departures.begin(reply.api_key, reply.arrived_ns, shared.turn.now_ns)
            replies.popleft()
            requests += 1
            bytes_in += reply.request_bytes
            if isinstance(parts, bytes):
                out.append(parts)
                bytes_out += len(parts)
            else:
                out.extend(parts)
                bytes_out += length_of(parts)
        if requests:
            departures.requests += requests
            departures.bytes_in += bytes_in
            departures.bytes_out += bytes_out
            if self.reply_bytes:
                self._count_waiting()
            self.send_parts(out)
        if self._waiting and not self.paused & reading.TURN_OVER:
            self.go_on(min(SESSION_STARTS_MAX, shared.turn.starts_left))
        elif self.paused:
            self.update_reading()

    def _count_unanswered(self) -> None:
        """Counts completed Produce requests with acks=0."""
        departures = self.shared.departures
        for reply in self._unanswered:
            if (
                reply.arrived_ns is not departures.arrived_ns
                or reply.api_key is not departures.api_key
            ):
                departures.begin(PRODUCE, reply.arrived_ns, self.shared.turn.now_ns)
            departures.requests += 1
            departures.bytes_in += reply.request_bytes
        self._unanswered.clear()

    def _count_waiting(self) -> None:
        """Counts again what waiting replies hold, as some left; few clients fetch so far ahead."""
        before = self.reply_bytes
        self.reply_bytes = sum(
            memory_of(reply.parts) for reply in self.replies if reply.parts is not None
        )
        self.shared.budget.hold_replies(self.reply_bytes - before)

    def output_held(self, nbytes: int, behind: bool) -> None:
        """Takes the bytes that the socket has not taken, and whether the client is behind."""
        self.shared.budget.hold_replies(nbytes - self.output_bytes)
        self.output_bytes = nbytes
        if behind:
            self.pause(reading.SOCKET_FULL)
        elif self.behind:
            self.resume(reading.SOCKET_FULL)
            if self._waiting:
                self._look_again()

    # ---- reading ----

    @property
    def behind(self) -> bool:
        """True while the client's socket is full and replies wait for it."""
        return bool(self.paused & reading.SOCKET_FULL)

    @property
    def reading(self) -> bool:
        """False while the session does not read, so nothing can be expected of its client."""
        return not self.paused

    def pause(self, reason: int) -> None:
        """Stops reading for this reason."""
        self._set_paused(self.paused | reason)

    def resume(self, reason: int) -> None:
        """Removes this reason not to read."""
        self._set_paused(self.paused & ~reason)

    def update_reading(self) -> None:
        """Checks the limits again after a change."""
        self._set_paused(self.paused)

    def _set_paused(self, reasons: int) -> None:
        """Computes the reasons; the one place that stops and resumes reading."""
        shared = self.shared
        reasons &= ~reading.LIMITS
        if self.closed:
            reasons |= reading.CLOSED
        if len(self._waiting) >= WAITING_FRAMES_MAX:
            reasons |= reading.MANY_FRAMES
        if self.outstanding >= OUTSTANDING_MAX:
            reasons |= reading.MANY_REQUESTS
        if self.in_flight_bytes > shared.in_flight_bytes_max:
            reasons |= reading.MANY_BYTES
        if len(self.replies) >= REPLIES_MAX:
            reasons |= reading.MANY_REPLIES
        if self.outstanding > 0 and not self._barrier and shared.budget.exhausted:
            reasons |= reading.MEMORY_SCARCE
        before = self.paused
        self.paused = reasons
        if (before == 0) != (reasons == 0) and not self.closed:
            self.wire.set_reading(reasons == 0)

    def mute(self, ms: int) -> None:
        """Takes no more requests for a while: the client is over its quota (KIP-219).

        Requests that were read before are served. A client that obeys throttle_time_ms waits by
        itself, and notices nothing.
        """
        if not self.closed:
            self.pause(reading.MUTED)
            self.wire.unmute_after(ms)

    def unmute(self) -> None:
        """Takes requests again: the throttle time is over."""
        self.resume(reading.MUTED)

    # ---- the end ----

    def refuse(self, request_bytes: int, reason: str) -> None:
        """Closes the connection for a request that was started and gets no answer."""
        self.shared.meters.refused += 1
        self.finished(request_bytes)
        self.wire.close(reason)

    def refuse_input(self, reason: str) -> None:
        """Closes the connection for input that is invalid or stopped too early."""
        if not self.closed:
            self.wire.close(reason)

    def connection_closed(self) -> None:
        """The socket is gone: gives up waiting requests and replies, and returns their memory."""
        self.closed = True
        self.input.close()
        self.shared.budget.hold_replies(-self.reply_bytes)
        self.reply_bytes = 0
        while self._waiting:
            frame, _ = self._waiting.popleft()
            self._forget(len(frame))
        for reply in list(self.replies):
            if reply.parts is None:
                reply.abandon()
            elif not isinstance(reply.parts, bytes):
                release_parts(reply.parts)
        self.replies.clear()
