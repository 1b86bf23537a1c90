"""The three coalesced streams of PartitionService, as raw bytes over grpc.aio.

There is one object per stream. Reading stops while too many answers wait to be written, so a
gateway that does not read cannot fill this node's memory. A stopping node ends its streams in
order, see `stream_drain`.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import AppendGroup, Failure
from highwater.hop.append_codec import decode_request, result_of
from highwater.hop.coordinator import (
    MESSAGE_BYTES_MAX,
    REPLY_BYTES_MAX,
    CoordinatorCall,
    CoordinatorPort,
)
from highwater.hop.fetch import FetchWork
from highwater.hop.fetch_codec import ResponseWriter, works_of
from highwater.hop.fetch_codec import decode_request as decode_fetch
from highwater.hop.framing import HopFramingError
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.edge.stream_drain import REFUSED, StreamDrain
from highwater.runtime.tasks import TaskOwner

StreamContext = grpc.aio.ServicerContext[Any, bytes]
"""Its `read` gives bytes, or EOF."""

OUT_BYTES_MAX: Final = 16 << 20
READ_AHEAD_BYTES: Final = 2 << 20
"""Bytes of records read for answers that are not written yet, if the stream sends bytes."""
WAITING_CALLS_MAX: Final = 100_000
"""Fetches and coordinator calls of one gateway that may wait at a time."""


class OutQueue:
    """Messages to write, in order; `room` is not set while the peer reads too slowly."""

    def __init__(self, context: StreamContext) -> None:
        self._context = context
        self._messages: deque[bytes] = deque()
        self._nbytes = 0
        self._filled = asyncio.Event()
        self._resting = False
        self._rested = asyncio.Event()
        self.room = asyncio.Event()
        self.room.set()
        self.awaited = 0
        """Answers that come soon without another event; the end of the stream waits for them."""

    def put(self, message: bytes) -> None:
        """Queues a message."""
        self._messages.append(message)
        self._nbytes += len(message)
        self._filled.set()
        if self._nbytes > OUT_BYTES_MAX:
            self.room.clear()

    def before_write(self) -> None:
        """Runs before each look at the queue; subclasses queue what they have gathered."""

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            self.before_write()
            if not self._messages:
                self._filled.clear()
                self._resting = True
                self._rested.set()
                await self._filled.wait()
                self._resting = False
                continue
            message = self._messages.popleft()
            self._nbytes -= len(message)
            await self._context.write(message)
            if self._nbytes <= OUT_BYTES_MAX:
                self.room.set()

    def wake(self) -> None:
        """Makes `run` look again."""
        self._filled.set()

    def say_goodbye(self) -> bool:
        """Tells the peer that nothing more is read; False if the stream has no such message."""
        return False

    @property
    def written(self) -> bool:
        """True if nothing waits to be written."""
        return self._resting and not self._filled.is_set()

    async def finish(self, deadline_s: float) -> None:
        """Waits until every message that was read is answered and written, or until `deadline_s`.

        `deadline_s` is on the loop's clock. Raises ConnectionError if something is not written.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline_s):
                while self.awaited or not self.written:
                    # Every answer wakes the writer, which sets the event when it has written.
                    self._rested.clear()
                    await self._rested.wait()
        if not self.written:
            raise ConnectionError("the peer does not read its answers")


class _Reading:
    """Ends a stream's reading when the writer fails or the node stops."""

    def __init__(
        self, out: OutQueue, drain: StreamDrain, task: "asyncio.Task[None] | None"
    ) -> None:
        assert task is not None
        self._out = out
        self._drain = drain
        self._task = task
        self.limit = asyncio.timeout(None)
        self.failure: BaseException | None = None
        self.stopped = False

    def failed(self, _name: str, error: BaseException) -> None:
        """The writer has failed."""
        self.failure = error
        self._task.cancel()

    def stop(self) -> None:
        """The node stops: reads nothing more, and gives the peer some time to close its side."""
        self.stopped = True
        told = self._out.say_goodbye()
        self.limit.reschedule(self._drain.deadline_s if told else 0.0)


async def serve_stream(
    context: StreamContext,
    out: OutQueue,
    receive: Callable[[bytes], None],
    drain: StreamDrain | None = None,
    *,
    last: bool = False,
) -> None:
    """Passes messages to `receive` until the peer, or `drain`, ends the stream.

    `last`: see `StreamDrain.stream`. Raises ConnectionError if answers cannot be written.
    """
    drain = drain or StreamDrain()
    if drain.ended:
        await context.abort(*REFUSED)
    reading = _Reading(out, drain, asyncio.current_task())
    writers = TaskOwner(reading.failed)
    writers.start(out.run(), name="stream-writer")
    try:
        with drain.stream(reading.stop, last=last):
            try:
                async with reading.limit:
                    await _read(context, out, receive, reading)
            except TimeoutError:
                if not reading.limit.expired():
                    raise
            if reading.stopped:
                await out.finish(drain.deadline_s)
    except asyncio.CancelledError:
        if reading.failure is None:
            raise
        # An exception reaches the peer, which opens another stream; a cancellation does not.
        raise ConnectionError("the stream cannot be written") from reading.failure
    finally:
        await writers.close(timeout_s=1)


async def _read(
    context: StreamContext, out: OutQueue, receive: Callable[[bytes], None], reading: _Reading
) -> None:
    while True:
        await out.room.wait()
        message = await context.read()
        if message is grpc.aio.EOF:
            return
        if reading.stopped:
            continue  # After `say_goodbye`: the peer knows that nothing more is answered.
        try:
            receive(message)
        except HopFramingError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))


class AppendResults(OutQueue):
    """Gathers group results into one response per write. Owns the groups of its stream."""

    def __init__(self, context: StreamContext) -> None:
        super().__init__(context)
        self.results: list[pb.AppendGroupResult] = []
        self.appended: list[int] = []
        self._ending = False

    def say_goodbye(self) -> bool:
        """With the results that are there, after all messages that were read."""
        self._ending = True
        self.wake()
        return True

    def before_write(self) -> None:
        """Turns what has gathered into a message."""
        if self.results or self.appended or self._ending:
            response = pb.AppendResponse(
                appended_message_ids=self.appended, results=self.results, ending=self._ending
            )
            self.results = []
            self.appended = []
            self._ending = False
            self.put(response.SerializeToString())

    def take_result(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: Mapping[int, Failure] | None,
    ) -> bool:
        """See `AppendOwner`: the sender tells the sinks."""
        self.results.append(result_of(group, base_offsets, failures))
        self.awaited -= 1
        self.wake()
        return True


async def append_stream(
    plane: DataPlane, context: StreamContext, drain: StreamDrain | None = None
) -> None:
    """Append: one message in, its groups' results out as they become final."""
    out = AppendResults(context)
    now_s = asyncio.get_running_loop().time

    def receive(message: bytes) -> None:
        message_id, groups = decode_request(message, int(now_s() * 1000), out)
        out.awaited += len(groups)
        plane.append(groups)
        out.appended.append(message_id)
        out.wake()

    await serve_stream(context, out, receive, drain)


class FetchAnswers(OutQueue):
    """Gathers answered fetches into as few messages as their bytes allow."""

    def __init__(self, context: StreamContext) -> None:
        super().__init__(context)
        self.works: list[FetchWork] = []
        self.references = False
        self.begun_messages = 0

    def before_write(self) -> None:
        """Turns what has gathered into messages, within the limit of bytes read ahead."""
        if not (self.works or self.begun_messages) or self._nbytes >= READ_AHEAD_BYTES:
            return
        writer = ResponseWriter(references=self.references)
        begun, self.begun_messages = self.begun_messages, 0
        for work in self._next_works():
            writer.add(work)
        for message in writer.take(begun):
            self.put(message)

    def _next_works(self) -> list[FetchWork]:
        """Takes the fetches to write now: a peer that does not read must not fill this memory."""
        count = len(self.works)
        if not self.references:
            nbytes = 0
            for number, work in enumerate(self.works):
                nbytes += sum(result.nbytes for result in work.results)
                if nbytes >= READ_AHEAD_BYTES:
                    count = number + 1
                    break
        taken, self.works = self.works[:count], self.works[count:]
        return taken


async def fetch_stream(
    plane: DataPlane, context: StreamContext, drain: StreamDrain | None = None
) -> None:
    """Fetch: answers leave as they become ready; when the node stops, no fetch waits for more."""
    out = FetchAnswers(context)
    waiting: dict[int, FetchWork] = {}

    def done(work: FetchWork) -> None:
        waiting.pop(work.call_id, None)
        out.works.append(work)
        out.wake()

    def receive(message: bytes) -> None:
        request = decode_fetch(message)
        out.references = request.accepts_references
        for call_id in request.cancelled_call_ids:
            gone = waiting.pop(call_id, None)
            if gone is not None:
                plane.cancel_fetch(gone)
        works = works_of(request, done)
        if len(waiting) + len(out.works) + len(works) > WAITING_CALLS_MAX:
            raise HopFramingError(f"more than {WAITING_CALLS_MAX} fetches wait on one stream")
        for work in works:
            waiting[work.call_id] = work
            plane.fetch(work)
        out.begun_messages += 1
        out.wake()

    try:
        await serve_stream(context, out, receive, drain)
    finally:
        for work in list(waiting.values()):
            plane.cancel_fetch(work)
        for work in out.works:
            for result in work.results:
                result.release()


class Replies(OutQueue):
    """Gathers coordinator replies, usually into one response per write."""

    def __init__(self, context: StreamContext) -> None:
        super().__init__(context)
        self.replies: list[pb.CoordinatorReply] = []

    def before_write(self) -> None:
        """Turns what has gathered into messages."""
        replies, self.replies = self.replies, []
        first = nbytes = 0
        for number, reply in enumerate(replies):
            if nbytes and nbytes + len(reply.body) > MESSAGE_BYTES_MAX:
                self._put(replies[first:number])
                first, nbytes = number, 0
            nbytes += len(reply.body)
        if replies:
            self._put(replies[first:])

    def _put(self, replies: list[pb.CoordinatorReply]) -> None:
        self.put(pb.CoordinateResponse(replies=replies).SerializeToString())


async def coordinate_stream(
    coordinator: CoordinatorPort, context: StreamContext, drain: StreamDrain | None = None
) -> None:
    """Coordinate: calls in, replies out in any order; a stopping node gives waiting calls none."""
    out = Replies(context)
    waiting: dict[int, CoordinatorCall] = {}

    def replier(call_id: int) -> Callable[[int, bytes], None]:
        def reply(error_code: int, body: bytes) -> None:
            if waiting.pop(call_id, None) is not None:
                if len(body) > REPLY_BYTES_MAX:
                    error_code, body = ErrorCode.UNKNOWN_SERVER_ERROR, b""
                out.replies.append(
                    pb.CoordinatorReply(call_id=call_id, error_code=error_code, body=body)
                )
                out.wake()

        return reply

    def receive(message: bytes) -> None:
        try:
            request = pb.CoordinateRequest.FromString(message)
        except DecodeError as error:
            raise HopFramingError(f"malformed CoordinateRequest: {error}") from None
        for call_id in request.cancelled_call_ids:
            gone = waiting.pop(call_id, None)
            if gone is not None:
                coordinator.cancel(gone)
        if len(waiting) + len(request.calls) > WAITING_CALLS_MAX:
            raise HopFramingError(f"more than {WAITING_CALLS_MAX} calls wait on one stream")
        for sent in request.calls:
            call = CoordinatorCall(
                api_key=sent.api_key,
                api_version=sent.api_version,
                instance=InstanceId(sent.instance),
                client_id=sent.client_id,
                client_host=sent.client_host,
                body=sent.body,
                partition=sent.coordinator_partition,
                deadline_ms=sent.deadline_ms,
                reply=replier(sent.call_id),
            )
            waiting[sent.call_id] = call
            coordinator.submit(call)

    try:
        await serve_stream(context, out, receive, drain)
    finally:
        for call in list(waiting.values()):
            coordinator.cancel(call)
