"""Replicate: a follower node's stream; one session per stream.

A follower asks again once it has the answer, so usually one answer waits to be written. If a
follower does not read, its requests are not read either while too many answers wait.
"""

import asyncio
from typing import Final

from highwater.model.time import Clock
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.edge.served_stream import Served, ServedStream, stream_handler
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.replication.codec import decode_request, encode_response
from highwater.partition.replication.leader.leader_session import LeaderSession
from highwater.partition.replication.leader.segment_bytes import read_slice
from highwater.partition.replication.rows import Answered
from highwater.partition.replication.throttle import Throttle
from highwater.partition.replication.traffic import ReplicaTraffic
from highwater.rpc.ports import Message, StreamHandler
from highwater.rpc.reports import OnFailure
from highwater.runtime.clock import SystemClock

ROW_BYTES: Final = 700
"""About the memory of a follower's partition: its row, and its places in queues."""
SYSTEM_CLOCK: Final = SystemClock()


class ServedReplication:
    """What one stream serves until it ends; a session that fails ends it."""

    def __init__(
        self,
        plane: DataPlane,
        stream: ServedStream,
        *,
        clock: Clock,
        throttle: Throttle | None = None,
        traffic: ReplicaTraffic | None = None,
    ) -> None:
        """`clock` is the replicas' clock; see `LeaderSession`."""
        self._stream = stream
        self._failure: Exception | None = None
        loop = asyncio.get_running_loop()
        self._session = LeaderSession(
            plane.replicas,
            now_ms=clock.monotonic_ms,
            call_later=loop.call_later,
            call_soon=loop.call_soon,
            read_bytes=read_slice,
            unreadable=plane.unreadable,
            answer=self._answer,
            broken=self._broken,
            throttle=throttle,
            traffic=traffic,
        )

    def receive(self, message: Message) -> None:
        """A follower's request."""
        self._session.receive(decode_request(message))

    def _answer(self, request_id: int, answered: list[Answered]) -> None:
        self._stream.put(encode_response(request_id, answered))
        self._stream.wake()

    def _broken(self, error: Exception) -> None:
        self._failure = error
        self._stream.wake()

    def before_write(self) -> None:
        """Raises the error that ended the session."""
        if self._failure is not None:
            raise self._failure

    def under_way(self) -> bool:
        """A request that waits for records."""
        return self._session.under_way

    def say_goodbye(self) -> bool:
        """No: what is not answered here, the follower asks the next leader."""
        return False

    def memory(self) -> int:
        """Of the session."""
        return ROW_BYTES * len(self._session)

    def closed(self) -> None:
        """The leader forgets the follower's session."""
        self._session.close()


def replicate_handler(
    plane: DataPlane,
    drain: StreamDrain,
    on_failure: OnFailure,
    *,
    clock: Clock = SYSTEM_CLOCK,
    throttle: Throttle | None = None,
    traffic: ReplicaTraffic | None = None,
) -> StreamHandler:
    """Serves Replicate; a stopping node refuses new streams.

    It ends these streams last: until then they commit the other streams' appends.
    """

    def serve(stream: ServedStream) -> Served:
        return ServedReplication(plane, stream, clock=clock, throttle=throttle, traffic=traffic)

    return stream_handler(serve, drain, on_failure, last=True)
