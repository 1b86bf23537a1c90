"""The Coordinate stream of one node: group and transaction calls, coalesced (decision 16)."""

from collections import deque
from collections.abc import Callable
from typing import Final

from google.protobuf.message import DecodeError

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.clients.lost_waits import LostWaits
from highwater.hop.coordinator import BODY_BYTES_MAX, MESSAGE_BYTES_MAX, CoordinatorCall
from highwater.hop.framing import HopFramingError
from highwater.hop.ports import ENDED_IN_STEP
from highwater.hop.stream import Stream
from highwater.hop.transport import path_of
from highwater.kafka.error_codes import ErrorCode
from highwater.model.steps import Steps
from highwater.rpc.ports import Message, StreamChannel

CALLS_PER_MESSAGE: Final = 256
DEADLINE_MS_MAX: Final = 0x7FFF_FFFF


class CoordinateStream:
    """See the module.

    When the stream breaks or the node is fenced, all calls are answered COORDINATOR_NOT_AVAILABLE,
    some in each turn of the loop; clients then look the coordinator up and retry.
    """

    def __init__(self, channel: StreamChannel, *, on_bug: Callable[[Exception], None]) -> None:
        """`on_bug`: see `Stream`."""
        self.stream = Stream(
            channel,
            path_of("Coordinate"),
            next_message=self._next_message,
            received=self._received,
            opened=self._opened,
            broken=self._broken,
            on_bug=on_bug,
        )
        self._lost: LostWaits[CoordinatorCall] = LostWaits(_answer_lost, on_bug)
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
        if len(call.body) > BODY_BYTES_MAX:
            call.reply(ErrorCode.INVALID_REQUEST, b"")  # The node would answer the same.
            return
        self._queue.append(call)
        self.stream.wake()

    def cancel(self, call: CoordinatorCall) -> None:
        """Forgets a call; the next message tells the node."""
        call.cancelled = True
        call_id = self._ids.pop(call, None)
        if call_id is not None:
            del self._waiting[call_id]
            self._cancelled.append(call_id)
            self.stream.wake()

    def set_fenced(self, fenced: bool) -> None:
        """While the node is fenced, calls are answered at once; `ending_waits` has the others."""
        self._fenced = fenced

    def ending_waits(self) -> Steps[None]:
        """Ends the calls that wait for a fenced node, which may hang and never answer.

        Between the steps the stream lives on: what is answered or cancelled is ended no more.
        """
        ended = 0
        while self._fenced and (self._waiting or self._queue):
            for call_id in list(self._waiting):
                call = self._waiting.pop(call_id, None)
                if call is not None:
                    del self._ids[call]
                    self._cancelled.append(call_id)
                    call.reply(ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")
                    ended += 1
                    if ended % ENDED_IN_STEP == 0:
                        self.stream.wake()
                        yield
            while self._queue:
                call = self._queue.popleft()
                if not call.cancelled:
                    call.reply(ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")
                ended += 1
                if ended % ENDED_IN_STEP == 0:
                    yield
        if ended:
            self.stream.wake()

    def _next_message(self) -> bytes | None:
        if not self._queue and not self._cancelled:
            return None
        request = pb.CoordinateRequest(cancelled_call_ids=self._cancelled)
        self._cancelled = []
        nbytes = 0
        while self._queue and len(request.calls) < CALLS_PER_MESSAGE:
            if nbytes and nbytes + len(self._queue[0].body) > MESSAGE_BYTES_MAX:
                break
            call = self._queue.popleft()
            if call.cancelled:
                continue
            nbytes += len(call.body)
            self._last_id += 1
            self._waiting[self._last_id] = call
            self._ids[call] = self._last_id
            sent = request.calls.add(
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
            if (view := call.view) is not None:
                kind, name = view.principal
                sent.view.principal_type, sent.view.principal_name = kind, name
                sent.view.host = view.host
                sent.view.visible_without_acl = view.visible_without_acl
        return request.SerializeToString()

    def _received(self, message: Message) -> None:
        for reply in _decode(message).replies:
            call = self._waiting.pop(reply.call_id, None)
            if call is not None:
                del self._ids[call]
                call.reply(reply.error_code, reply.body)

    def _opened(self) -> None:
        self.stream.wake()

    def _broken(self, _reason: str) -> None:
        self._cancelled = []
        waiting = [*self._waiting.values(), *self._queue]
        self._waiting.clear()
        self._ids.clear()
        self._queue.clear()
        self._lost.add(waiting)

    def end(self, reason: str) -> None:
        """Ends the stream for good; all calls are answered before this returns."""
        self.stream.end(reason)
        self._lost.end_all()


def _answer_lost(call: CoordinatorCall) -> None:
    if not call.cancelled:
        call.reply(ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")


def _decode(message: Message) -> pb.CoordinateResponse:
    try:
        return pb.CoordinateResponse.FromString(message)  # type: ignore[arg-type]  # Any buffer.
    except DecodeError as error:
        raise HopFramingError(str(error)) from None
