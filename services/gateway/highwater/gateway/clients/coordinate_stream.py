"""The Coordinate stream of one node: group and transaction calls, coalesced (decision 16)."""

from collections import deque
from typing import Final

import grpc.aio
from google.protobuf.message import DecodeError

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.coordinator import CoordinatorCall
from highwater.hop.framing import HopFramingError
from highwater.hop.stream import Stream
from highwater.kafka.error_codes import ErrorCode

METHOD: Final = "/highwater.api.partition.v1.PartitionService/Coordinate"
CALLS_PER_MESSAGE: Final = 256
MESSAGE_BYTES_MAX: Final = 1 << 20
"""A message ends with the call that reaches it; far below what gRPC takes, with any one call."""
DEADLINE_MS_MAX: Final = 0x7FFF_FFFF


class CoordinateStream:
    """See the module.

    A break answers COORDINATOR_NOT_AVAILABLE, which clients retry after looking it up again, and so
    does the fencing of the node.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.stream = Stream(
            channel,
            METHOD,
            next_message=self._next_message,
            received=self._received,
            opened=self._opened,
            broken=self._broken,
        )
        self._queue: deque[CoordinatorCall] = deque()
        self._cancelled: list[int] = []
        self._waiting: dict[int, CoordinatorCall] = {}
        self._ids: dict[CoordinatorCall, int] = {}
        self._last_id = 0
        self._fenced = False

    def submit(self, call: CoordinatorCall) -> None:
        """Queues a call; without a stream it is answered at once."""
        if self._fenced or not self.stream.is_open:
            call.reply(ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")
            return
        self._queue.append(call)
        self.stream.wake()

    def cancel(self, call: CoordinatorCall) -> None:
        """Forgets a call; the node is told with the next message."""
        call.cancelled = True
        call_id = self._ids.pop(call, None)
        if call_id is not None:
            del self._waiting[call_id]
            self._cancelled.append(call_id)
            self.stream.wake()

    def set_fenced(self, fenced: bool) -> None:
        """A fenced node coordinates nothing, though it may hang: ends all waits."""
        self._fenced = fenced
        if fenced:
            self._cancelled += self._end_waits()
            self.stream.wake()

    def _next_message(self) -> bytes | None:
        if not self._queue and not self._cancelled:
            return None
        request = pb.CoordinateRequest(cancelled_call_ids=self._cancelled)
        self._cancelled = []
        nbytes = 0
        while self._queue and len(request.calls) < CALLS_PER_MESSAGE and nbytes < MESSAGE_BYTES_MAX:
            call = self._queue.popleft()
            if call.cancelled:
                continue
            nbytes += len(call.body)
            self._last_id += 1
            self._waiting[self._last_id] = call
            self._ids[call] = self._last_id
            request.calls.add(
                call_id=self._last_id,
                api_key=call.api_key,
                api_version=call.api_version,
                instance=call.instance,
                client_id=call.client_id,
                client_host=call.client_host,
                body=bytes(call.body),
                deadline_ms=min(max(call.deadline_ms, 0), DEADLINE_MS_MAX),
                coordinator_partition=call.partition,
            )
        return request.SerializeToString()

    def _received(self, message: bytes) -> None:
        for reply in _decode(message).replies:
            call = self._waiting.pop(reply.call_id, None)
            if call is not None:
                del self._ids[call]
                call.reply(reply.error_code, reply.body)

    def _opened(self) -> None:
        self.stream.wake()

    def _broken(self, _reason: str) -> None:
        self._cancelled = []
        self._end_waits()

    def _end_waits(self) -> list[int]:
        """Answers all calls; gives the ids of those that the node has."""
        waiting = [*self._waiting.values(), *self._queue]
        sent = list(self._waiting)
        self._waiting.clear()
        self._ids.clear()
        self._queue.clear()
        for call in waiting:
            if not call.cancelled:
                call.reply(ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")
        return sent


def _decode(message: bytes) -> pb.CoordinateResponse:
    try:
        return pb.CoordinateResponse.FromString(message)
    except DecodeError as error:
        raise HopFramingError(str(error)) from None
