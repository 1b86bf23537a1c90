"""The Fetch stream of one node: calls out, answers in any order, references opened here."""

from collections import deque
from typing import Final

import grpc.aio

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.clients.segment_files import ReferenceError, SegmentFiles
from highwater.gateway.clients.stream import Stream
from highwater.hop.fetch import READ_COMMITTED, FetchedPartition, FetchWork
from highwater.hop.fetch_codec import call_of, parse_response, results_of
from highwater.kafka.error_codes import ErrorCode

METHOD: Final = "/highwater.api.partition.v1.PartitionService/Fetch"
CALLS_PER_MESSAGE: Final = 256


class FetchStream:
    """See the module. Works are answered NOT_LEADER_OR_FOLLOWER when the stream breaks, which
    makes clients ask again; nothing is lost by a fetch."""

    def __init__(self, channel: grpc.aio.Channel, files: SegmentFiles) -> None:
        self.stream = Stream(
            channel,
            METHOD,
            next_message=self._next_message,
            received=self._received,
            opened=self._opened,
            broken=self._broken,
        )
        self._files = files
        self._queue: deque[FetchWork] = deque()
        self._cancelled: list[int] = []
        self._waiting: dict[int, FetchWork] = {}
        self._pieces: dict[int, tuple[pb.FetchResponse, list[bytes]]] = {}
        self._last_id = 0

    def fetch(self, work: FetchWork) -> None:
        """Queues a fetch; without a stream it is answered at once."""
        if not self.stream.is_open:
            _answer_away(work)
            return
        self._queue.append(work)
        self.stream.wake()

    def cancel(self, work: FetchWork) -> None:
        """Forgets a fetch; the node is told with the next message."""
        work.cancelled = True
        if work.call_id:
            self._waiting.pop(work.call_id, None)
            self._pieces.pop(work.call_id, None)
            self._cancelled.append(work.call_id)
            self.stream.wake()

    def _next_message(self) -> bytes | None:
        if not self._queue and not self._cancelled:
            return None
        request = pb.FetchRequest(
            cancelled_call_ids=self._cancelled, accepts_references=self._files.readable
        )
        self._cancelled = []
        while self._queue and len(request.calls) < CALLS_PER_MESSAGE:
            work = self._queue.popleft()
            if work.cancelled:
                continue
            self._last_id += 1
            work.call_id = self._last_id
            self._waiting[work.call_id] = work
            request.calls.append(call_of(work, work.call_id))
        return request.SerializeToString()

    def _received(self, message: bytes) -> None:
        header, payload = parse_response(message)
        call_id = header.call_id
        work = self._waiting.get(call_id)
        if work is None:
            return  # Cancelled while the answer was on its way.
        begun = self._pieces.pop(call_id, None)
        if begun is not None or not header.done:
            first, pieces = begun or (header, [])
            pieces.append(bytes(payload))
            if not header.done:
                self._pieces[call_id] = (first, pieces)
                return
            header, payload = first, memoryview(b"".join(pieces))
        del self._waiting[call_id]
        results = results_of(header, work.isolation_level == READ_COMMITTED)
        if header.references:
            self._open_references(header, results)
        else:
            position = 0
            for result in results:
                if result.nbytes:
                    result.records = payload[position : position + result.nbytes]
                    position += result.nbytes
        work.results = results
        work.done(work)

    def _open_references(
        self, header: pb.FetchResponse, results: list[FetchedPartition]
    ) -> None:
        for reference in header.references:
            result = results[reference.index]
            try:
                result.records = self._files.open(reference, result.nbytes)
            except ReferenceError:
                # The file went away in between; the client asks again and gets a new place.
                result.nbytes = 0
                result.records = b""

    def _opened(self) -> None:
        self.stream.wake()

    def _broken(self, reason: str) -> None:
        waiting = [*self._waiting.values(), *self._queue]
        self._waiting.clear()
        self._pieces.clear()
        self._queue.clear()
        self._cancelled = []
        for work in waiting:
            if not work.cancelled:
                _answer_away(work)


def _answer_away(work: FetchWork) -> None:
    work.results = [
        FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER) for _ in work.partitions
    ]
    work.done(work)
