"""What the three coalesced streams serve that gateways open: Append, Fetch, Coordinate.

Hot path. There is one object per stream beside its `ServedStream`, which has what they share.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

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
from highwater.hop.fetch import BUFFERS, FetchSet, FetchWork
from highwater.hop.fetch_codec import ResponseWriter, calls_in, works_of
from highwater.hop.fetch_codec import decode_request as decode_fetch
from highwater.hop.framing import HopFramingError
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.edge.coordinator_calls import call_of
from highwater.partition.edge.served_stream import Served, ServedStream, stream_handler
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.rpc.ports import Message, StreamHandler
from highwater.rpc.reports import OnFailure

READ_AHEAD_BYTES: Final = 2 << 20
"""Bytes of records in memory for answers that are in no message yet, and as many in messages."""
WAITING_CALLS_MAX: Final = 100_000
"""Fetches and coordinator calls of one gateway that may wait at a time."""
FETCH_SETS_MAX: Final = 100_000
"""Fetch sets of one gateway; its fetch sessions are bounded by their memory."""
RESULT_BYTES: Final = 128
"""About the memory of a group's result that waits to be sent."""
GROUP_BYTES: Final = 1_000
"""About the memory of a group without its bytes, while its result is awaited. Bytes are freed when they are
in the log, and those of groups that a meter holds back have limits (`data_plane.held_appends`)."""
FETCH_BYTES: Final = 700
"""About that of a fetch without its partitions."""
ASKED_BYTES: Final = 250
"""About that of a partition in a fetch or in a fetch set."""
CALL_BYTES: Final = 700
"""About that of a coordinator call without its body."""


class ServedAppends:
    """Append: one message in, its groups' results out as they become final.

    Gathers group results into one response per write. Owns the groups of its stream.
    """

    def __init__(self, plane: DataPlane, stream: ServedStream) -> None:
        self._stream = stream
        self._plane = plane
        self._now_s = asyncio.get_running_loop().time
        self._results: list[pb.AppendGroupResult] = []
        self._appended: list[int] = []
        self._ending = False

    def receive(self, message: Message) -> None:
        """Appends a message's groups, in order."""
        message_id, groups = decode_request(message, int(self._now_s() * 1000), self)
        self._stream.awaited += len(groups)
        self._plane.append(groups)
        self._appended.append(message_id)
        self._stream.wake()

    def under_way(self) -> bool:
        """Groups without a result."""
        return self._stream.awaited > 0

    def say_goodbye(self) -> bool:
        """With the results that are there, after all messages that were read."""
        self._ending = True
        return True

    def before_write(self) -> None:
        """Turns what has gathered into a message."""
        if self._results or self._appended or self._ending:
            response = pb.AppendResponse(
                appended_message_ids=self._appended, results=self._results, ending=self._ending
            )
            self._results = []
            self._appended = []
            self._ending = False
            self._stream.gathered_bytes = 0
            self._stream.put(response.SerializeToString())

    def closed(self) -> None:
        """Nothing: the plane completes the groups, and their results go nowhere."""

    def memory(self) -> int:
        """Of groups whose results are awaited."""
        return GROUP_BYTES * self._stream.awaited

    def take_result(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: Mapping[int, Failure] | None,
    ) -> bool:
        """See `AppendOwner`: the sender tells the sinks."""
        self._results.append(result_of(group, base_offsets, failures))
        self._stream.gathered_bytes += RESULT_BYTES
        self._stream.awaited -= 1
        self._stream.wake()
        return True


class ServedFetches:
    """Fetch: answers leave as they become ready; when the node stops, no fetch waits for more.

    Gathers answered fetches into as few messages as their bytes allow.
    """

    def __init__(self, plane: DataPlane, stream: ServedStream) -> None:
        self._stream = stream
        self._plane = plane
        self._waiting: dict[int, FetchWork] = {}
        self._sets: dict[int, FetchSet] = {}
        """What the gateway's fetch sessions ask of this node."""
        self._works: list[FetchWork] = []
        """Answered, and not in a message yet."""
        self._copied_bytes = 0
        """Bytes of records in memory that belong to `_works`."""
        self.replies_scarce = False
        """See `ReplyMemory`."""
        self._references = False
        self._begun_messages = 0

    def receive(self, message: Message) -> None:
        """Cancels and begins fetches."""
        request = decode_fetch(message)
        self._references = request.accepts_references
        waiting = self._waiting
        for call_id in request.cancelled_call_ids:
            gone = waiting.pop(call_id, None)
            if gone is not None:
                self._plane.cancel_fetch(gone)
        for set_id in request.ended_sets:
            ended = self._sets.pop(set_id, None)
            if ended is not None:
                self._plane.end_fetch_set(ended)
        if len(waiting) + len(self._works) + calls_in(request) > WAITING_CALLS_MAX:
            raise HopFramingError(f"more than {WAITING_CALLS_MAX} fetches wait on one stream")
        works = works_of(request, self._done, self, self._sets)
        if len(self._sets) > FETCH_SETS_MAX:
            raise HopFramingError(f"more than {FETCH_SETS_MAX} fetch sets on one stream")
        for work in works:
            if waiting.setdefault(work.call_id, work) is not work:
                # The one that waits could not be cancelled any more.
                raise HopFramingError(f"two fetches with the number {work.call_id}")
            self._plane.fetch(work)
        self._begun_messages += 1
        self._stream.wake()

    def _done(self, work: FetchWork) -> None:
        self._waiting.pop(work.call_id, None)
        self._works.append(work)
        if work.memory is not None:
            self._copied_bytes += _bytes_in_memory(work)
            self.replies_scarce = self._copied_bytes >= READ_AHEAD_BYTES
        self._stream.wake()

    def before_write(self) -> None:
        """Turns what has gathered into messages, within the limit of bytes read ahead."""
        ready = self._works or self._begun_messages
        if not ready or self._stream.waiting_bytes >= READ_AHEAD_BYTES:
            return
        writer = ResponseWriter(references=self._references)
        begun, self._begun_messages = self._begun_messages, 0
        for work in self._next_works():
            writer.add(work)
        for message in writer.take(begun):
            self._stream.put(message)

    def _next_works(self) -> list[FetchWork]:
        """Takes the fetches to write now: a peer that does not read must not fill this memory."""
        works = self._works
        count = len(works)
        if not self._references:
            nbytes = 0
            for number, work in enumerate(works):
                nbytes += sum(result.nbytes for result in work.results)
                if nbytes >= READ_AHEAD_BYTES:
                    count = number + 1
                    break
        taken, self._works = works[:count], works[count:]
        if self._copied_bytes:
            left = self._copied_bytes - sum(map(_bytes_in_memory, taken)) if self._works else 0
            self._copied_bytes = left
            self.replies_scarce = left >= READ_AHEAD_BYTES
        return taken

    def under_way(self) -> bool:
        """Fetches that wait for records, each for its own time."""
        return bool(self._waiting)

    def say_goodbye(self) -> bool:
        """No: a fetch that is not answered can be asked for again."""
        return False

    def memory(self) -> int:
        """Of fetches that wait or are answered, of what they ask for, and of fetch sets."""
        waiting, works, sets = self._waiting, self._works, self._sets
        asked = sum([len(work.partitions) for work in waiting.values()])
        asked += sum([len(work.partitions) + len(work.results) for work in works])
        asked += sum([len(fetch_set.asked) for fetch_set in sets.values()])
        fetches = len(waiting) + len(works) + len(sets)
        return self._copied_bytes + FETCH_BYTES * fetches + ASKED_BYTES * asked

    def closed(self) -> None:
        """Forgets all fetches, and releases the files of answers."""
        for work in list(self._waiting.values()):
            self._plane.cancel_fetch(work)
        self._waiting.clear()
        for fetch_set in self._sets.values():
            self._plane.end_fetch_set(fetch_set)
        self._sets.clear()
        works, self._works = self._works, []
        for work in works:
            for result in work.results:
                result.release()


def _bytes_in_memory(work: FetchWork) -> int:
    """Of an answer's records."""
    return sum([r.nbytes for r in work.results if isinstance(r.records, BUFFERS)])


class ServedCoordination:
    """Coordinate: calls in, replies out in any order; a stopping node gives waiting calls none.

    Gathers coordinator replies, usually into one response per write.
    """

    def __init__(self, coordinator: CoordinatorPort, stream: ServedStream) -> None:
        self._stream = stream
        self._coordinator = coordinator
        self._waiting: dict[int, CoordinatorCall] = {}
        self._replies: list[pb.CoordinatorReply] = []

    def receive(self, message: Message) -> None:
        """Cancels and submits calls."""
        try:
            request = pb.CoordinateRequest.FromString(message)  # type: ignore[arg-type]  # Any buffer.
        except DecodeError as error:
            raise HopFramingError(f"malformed CoordinateRequest: {error}") from None
        waiting = self._waiting
        for call_id in request.cancelled_call_ids:
            gone = waiting.pop(call_id, None)
            if gone is not None:
                self._coordinator.cancel(gone)
        if len(waiting) + len(request.calls) > WAITING_CALLS_MAX:
            raise HopFramingError(f"more than {WAITING_CALLS_MAX} calls wait on one stream")
        for sent in request.calls:
            call = call_of(sent, self._replier(sent.call_id))
            if waiting.setdefault(sent.call_id, call) is not call:
                raise HopFramingError(f"two calls with the number {sent.call_id}")
            self._coordinator.submit(call)

    def _replier(self, call_id: int) -> Callable[[int, bytes], None]:
        def reply(error_code: int, body: bytes) -> None:
            if self._waiting.pop(call_id, None) is not None:
                self._reply(call_id, error_code, body)

        return reply

    def _reply(self, call_id: int, error_code: int, body: bytes) -> None:
        if len(body) > REPLY_BYTES_MAX:
            error_code, body = ErrorCode.UNKNOWN_SERVER_ERROR, b""
        self._replies.append(pb.CoordinatorReply(call_id=call_id, error_code=error_code, body=body))
        self._stream.gathered_bytes += len(body)
        self._stream.wake()

    def before_write(self) -> None:
        """Turns what has gathered into messages."""
        replies, self._replies = self._replies, []
        self._stream.gathered_bytes = 0
        first = nbytes = 0
        for number, reply in enumerate(replies):
            if nbytes and nbytes + len(reply.body) > MESSAGE_BYTES_MAX:
                self._put(replies[first:number])
                first, nbytes = number, 0
            nbytes += len(reply.body)
        if replies:
            self._put(replies[first:])

    def _put(self, replies: list[pb.CoordinatorReply]) -> None:
        self._stream.put(pb.CoordinateResponse(replies=replies).SerializeToString())

    def under_way(self) -> bool:
        """Calls without a reply."""
        return bool(self._waiting)

    def say_goodbye(self) -> bool:
        """No: the gateway answers the calls that are left when the stream ends."""
        return False

    def memory(self) -> int:
        """Of calls that wait, with their bodies."""
        waiting = self._waiting
        return CALL_BYTES * len(waiting) + sum([len(call.body) for call in waiting.values()])

    def closed(self) -> None:
        """Cancels all calls."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for call in waiting:
            self._coordinator.cancel(call)


def append_handler(plane: DataPlane, drain: StreamDrain, on_failure: OnFailure) -> StreamHandler:
    """Serves Append; a stopping node refuses new streams."""

    def serve(stream: ServedStream) -> Served:
        return ServedAppends(plane, stream)

    return stream_handler(serve, drain, on_failure)


def fetch_handler(plane: DataPlane, drain: StreamDrain, on_failure: OnFailure) -> StreamHandler:
    """Serves Fetch, likewise."""

    def serve(stream: ServedStream) -> Served:
        return ServedFetches(plane, stream)

    return stream_handler(serve, drain, on_failure)


def coordinate_handler(
    coordinator: CoordinatorPort, drain: StreamDrain, on_failure: OnFailure
) -> StreamHandler:
    """Serves Coordinate, likewise."""

    def serve(stream: ServedStream) -> Served:
        return ServedCoordination(coordinator, stream)

    return stream_handler(serve, drain, on_failure)
