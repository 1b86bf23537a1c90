"""Replicate: a follower node's stream, as raw bytes over grpc.aio; one session per stream.

A follower asks again once it has the answer, so usually one answer waits to be written. If a
follower does not read, its requests are not read either while `OutQueue` has no room.
"""

import asyncio
from typing import Final

from highwater.model.time import Clock
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.edge.streams import OutQueue, StreamContext, serve_stream
from highwater.partition.replication.codec import decode_request, encode_response
from highwater.partition.replication.leader.leader_session import LeaderSession
from highwater.partition.replication.leader.segment_bytes import read_slice
from highwater.partition.replication.rows import Answered
from highwater.partition.replication.throttle import Throttle
from highwater.partition.replication.traffic import ReplicaTraffic
from highwater.runtime.clock import SystemClock

SYSTEM_CLOCK: Final = SystemClock()


class SessionAnswers(OutQueue):
    """Writes a session's answers, and ends the stream if the session fails."""

    def __init__(self, context: StreamContext) -> None:
        super().__init__(context)
        self._failure: Exception | None = None

    def answer(self, request_id: int, answered: list[Answered]) -> None:
        """Queues the answer to a request."""
        self.put(encode_response(request_id, answered))

    def broken(self, error: Exception) -> None:
        """Ends the stream with an error."""
        self._failure = error
        self.wake()

    def before_write(self) -> None:
        """Raises the error that ended the session."""
        if self._failure is not None:
            raise self._failure


async def replicate_stream(
    plane: DataPlane,
    context: StreamContext,
    drain: StreamDrain | None = None,
    clock: Clock = SYSTEM_CLOCK,
    *,
    throttle: Throttle | None = None,
    traffic: ReplicaTraffic | None = None,
) -> None:
    """Serves one stream until it ends. `clock` is the replicas' clock; see `LeaderSession`.

    A stopping node ends this stream last: until then it commits the other streams' appends.
    """
    loop = asyncio.get_running_loop()
    out = SessionAnswers(context)
    session = LeaderSession(
        plane.replicas,
        now_ms=clock.monotonic_ms,
        call_later=loop.call_later,
        call_soon=loop.call_soon,
        read_bytes=read_slice,
        unreadable=plane.unreadable,
        answer=out.answer,
        broken=out.broken,
        throttle=throttle,
        traffic=traffic,
    )
    try:
        await serve_stream(
            context, out, lambda m: session.receive(decode_request(m)), drain, last=True
        )
    finally:
        session.close()
