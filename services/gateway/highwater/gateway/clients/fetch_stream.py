"""The Fetch stream of one node: sends fetches, takes answers in any order, opens referenced files.

Messages go out at once while few of them wait to be begun by the node; otherwise fetches gather,
since a message costs much more than a fetch in it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from highwater.gateway.clients.lost_waits import LostWaits
from highwater.gateway.core.budget import MemoryBudget
from highwater.hop.fetch import SMALL_RANGE, FetchSet, FetchWork, answer_away
from highwater.hop.fetch_codec import Answer, encode_request, parse_response
from highwater.hop.framing import HopFramingError, Parts
from highwater.hop.ports import ENDED_IN_STEP
from highwater.hop.segment_files import SegmentFiles, StaleReferenceError
from highwater.hop.stream import Stream
from highwater.hop.transport import MESSAGE_BYTES_MAX, path_of
from highwater.model.steps import Steps
from highwater.rpc.ports import Message, StreamChannel

CALLS_PER_MESSAGE: Final = 256
OUTSTANDING_MAX: Final = 2
"""Messages that the node has not begun. With one the node idles; with more, less is coalesced."""
COPIED_BYTES_MAX: Final = 4 << 10
"""Records of a partition up to this size come as bytes also where the files can be read. With 8 KiB
and more, a reference and a read here cost less than two more copies by the sockets (measured: the
processor time of both ends)."""
RESPONSE_BYTES_MAX: Final = 8 << 20
"""Limit of an answer that carries its bytes, which both ends hold in memory (decision 18)."""
PIECES_MAX: Final = 1_000
"""Of one answer. A node fills each of them, with 1 MiB."""
PIECES_BYTES_MAX: Final = RESPONSE_BYTES_MAX + MESSAGE_BYTES_MAX
"""Of an answer that comes in pieces: the first batch may be longer than what was asked for."""


class FetchStream:
    """See the module.

    When the stream breaks or the node is fenced, all fetches are answered NOT_LEADER_OR_FOLLOWER,
    some in each turn of the loop, so that clients refresh their metadata and fetch again.
    """

    def __init__(
        self,
        channel: StreamChannel,
        files: SegmentFiles,
        budget: MemoryBudget,
        *,
        on_bug: Callable[[Exception], None],
    ) -> None:
        """Answers are not read while `budget` has no room for more unsent replies.

        `on_bug`: see `Stream`.
        """
        self.stream = Stream(
            channel,
            path_of("Fetch"),
            next_message=self._next_message,
            received=self._received,
            opened=self._opened,
            broken=self._broken,
            on_bug=on_bug,
        )
        self._lost: LostWaits[FetchWork] = LostWaits(self._answer_lost, on_bug)
        self._budget = budget
        self._files = files
        self._queue: deque[FetchWork] = deque()
        self._cancelled: list[int] = []
        self._ended_sets: list[int] = []
        self._last_set_id = 0
        self._incarnation = object()
        """What the node knows of fetch sets, which it forgets when the stream breaks."""
        self._waiting: dict[int, FetchWork] = {}
        self._pieces: dict[int, tuple[Answer, list[memoryview]]] = {}
        self._last_id = 0
        self.fetches_sent = 0
        """Fetches that were written."""
        self._outstanding = 0
        self._fenced = False
        self._rests = False
        """Set while nothing is read, until replies fit."""

    def fetch(self, work: FetchWork) -> None:
        """Queues a fetch; without a stream it is answered at once."""
        if self._fenced or not self.stream.is_open:
            self._answer_away(work)
            return
        if not self._files.readable:
            work.max_bytes = min(work.max_bytes, RESPONSE_BYTES_MAX)
            work.min_bytes = min(work.min_bytes, work.max_bytes)
        self._queue.append(work)
        self.stream.wake()

    def cancel(self, work: FetchWork) -> None:
        """Forgets a fetch; the next message tells the node."""
        work.cancelled = True
        if work.call_id:
            self._waiting.pop(work.call_id, None)
            self._pieces.pop(work.call_id, None)
            self._cancelled.append(work.call_id)
            self.stream.wake()

    def end_fetch_set(self, fetch_set: FetchSet) -> None:
        """Tells the node to forget a set, if it knows it."""
        if fetch_set.known_by(self._incarnation):
            fetch_set.forget()
            self._ended_sets.append(fetch_set.set_id)
            self.stream.wake()

    def set_fenced(self, fenced: bool) -> None:
        """While the node is fenced, fetches are answered at once; `ending_waits` has the others."""
        self._fenced = fenced

    def ending_waits(self) -> Steps[None]:
        """Ends the fetches that wait for a fenced node, which may hang and never answer.

        Between the steps the stream lives on: what is answered or cancelled is ended no more.
        """
        ended = 0
        while self._fenced and (self._waiting or self._queue):
            for call_id in list(self._waiting):
                work = self._waiting.pop(call_id, None)
                if work is not None:
                    self._pieces.pop(call_id, None)
                    self._cancelled.append(call_id)
                    self._answer_away(work)
                    ended += 1
                    if ended % ENDED_IN_STEP == 0:
                        self.stream.wake()
                        yield
            while self._queue:
                work = self._queue.popleft()
                if not work.cancelled:
                    self._answer_away(work)
                ended += 1
                if ended % ENDED_IN_STEP == 0:
                    yield
        if ended:
            self.stream.wake()

    def _answer_away(self, work: FetchWork) -> None:
        if work.fetch_set is not None:
            self.end_fetch_set(work.fetch_set)
        answer_away(work)

    def _next_message(self) -> Parts | None:
        due = self._queue or self._cancelled or self._ended_sets
        if self._outstanding >= OUTSTANDING_MAX or not due:
            return None
        self._outstanding += 1
        cancelled, self._cancelled = self._cancelled, []
        ended_sets, self._ended_sets = self._ended_sets, []
        works: list[FetchWork] = []
        readable = self._files.readable
        copied_bytes_max = COPIED_BYTES_MAX if readable else SMALL_RANGE
        if self._budget.replies_scarce:
            copied_bytes_max = 0
        while self._queue and len(works) < CALLS_PER_MESSAGE:
            work = self._queue.popleft()
            if not work.cancelled:
                self._last_id += 1
                work.call_id = self._last_id
                self._waiting[work.call_id] = work
                works.append(work)
                fetch_set = work.fetch_set
                if fetch_set is not None and not fetch_set.known_by(self._incarnation):
                    self._last_set_id += 1
                    fetch_set.set_id = self._last_set_id
                if work.memory is None:
                    copied_bytes_max = 0
        self.fetches_sent += len(works)
        return encode_request(
            works,
            cancelled,
            readable,
            copied_bytes_max,
            stream=self._incarnation,
            ended_sets=ended_sets,
        )

    def _received(self, message: Message) -> None:
        answers, begun_messages = parse_response(message)
        if begun_messages:
            self._outstanding -= begun_messages
            if self._outstanding < 0:
                raise HopFramingError("more requests were begun than sent")
            self.stream.wake()
        for part in answers:
            answer = part
            work = self._waiting.get(answer.call_id)
            if work is None:
                continue  # Cancelled while the answer was on its way.
            payload = answer.payload
            begun = self._pieces.pop(answer.call_id, None)
            if begun is not None or not answer.done:
                first, pieces = begun or (answer, [])
                pieces.append(payload)
                if sum(map(len, pieces)) > PIECES_BYTES_MAX or len(pieces) > PIECES_MAX:
                    raise HopFramingError("an answer without an end")
                if not answer.done:
                    self._pieces[answer.call_id] = (first, pieces)
                    continue
                answer, payload = first, memoryview(b"".join(pieces))
            if work.fetch_set is not None:
                if not work.fetch_set.asked.keys() >= set(answer.places):
                    raise HopFramingError(
                        "an answer for partitions that the fetch set does not have"
                    )
                work.answered = answer.places
            elif len(answer.results) != len(work.partitions):
                raise HopFramingError(
                    f"{len(answer.results)} results for {len(work.partitions)} partitions"
                )
            work.results = answer.fill(payload, work.isolation_level)
            del self._waiting[answer.call_id]
            self._open_references(answer)
            work.throttle_ms = answer.throttle_ms
            work.done(work)
        self._rest_if_scarce()

    def _open_references(self, answer: Answer) -> None:
        for result, file, position in answer.references:
            try:
                result.records = self._files.open(file, position, result.nbytes)
            except StaleReferenceError:
                # The file was deleted in between; the client fetches again.
                result.nbytes = 0

    def _rest_if_scarce(self) -> None:
        """Answers are not read while clients do not read theirs."""
        if self._budget.replies_scarce and not self._rests:
            self._rests = True
            self.stream.pause_reading()
            self._budget.when_replies_fit(self._replies_fit)

    def _replies_fit(self) -> None:
        # Later, since answers that have come meanwhile are handed on at once.
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._rests = False
        self._rest_if_scarce()
        if not self._rests:
            self.stream.resume_reading()

    def _opened(self) -> None:
        self._rest_if_scarce()
        self.stream.wake()

    def _broken(self, _reason: str) -> None:
        waiting = [*self._waiting.values(), *self._queue]
        self._waiting.clear()
        self._pieces.clear()
        self._queue.clear()
        self._cancelled = []
        self._ended_sets = []
        self._incarnation = object()
        self._outstanding = 0
        for work in waiting:
            work.call_id = 0  # The next connection has never heard of it.
        self._lost.add(waiting)

    def _answer_lost(self, work: FetchWork) -> None:
        if not work.cancelled:
            self._answer_away(work)

    def end(self, reason: str) -> None:
        """Ends the stream for good; all fetches are answered before this returns."""
        self.stream.end(reason)
        self._lost.end_all()
