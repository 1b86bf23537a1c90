"""A `NodeLink` over gRPC: one channel, three streams, and unary calls for rarer requests."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import grpc
import grpc.aio

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.api.partition.v1 import partition_service_pb2_grpc as rpc
from highwater.gateway.clients.append_stream import AppendStream
from highwater.gateway.clients.coordinate_stream import CoordinateStream
from highwater.gateway.clients.fetch_stream import FetchStream
from highwater.gateway.core.budget import MemoryBudget
from highwater.hop.append import AppendOwner
from highwater.hop.coordinator import CoordinatorCall
from highwater.hop.fetch import FetchWork
from highwater.hop.segment_files import SegmentFiles
from highwater.hop.stream import REOPEN_DELAYS_S, Stream
from highwater.model.cluster import NodeState
from highwater.model.errors import UnreachableError
from highwater.model.time import Clock
from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.tasks import TaskOwner

SERVICE: Final = "highwater.api.partition.v1.PartitionService"
MESSAGE_BYTES_MAX: Final = 128 << 20
"""One batch may be as large as a client's frame, and travels in one message."""
_IDEMPOTENT: Final = (
    (SERVICE, "ListOffsets"),
    (SERVICE, "OffsetsForLeaderEpoch"),
    (SERVICE, "DescribeLogDirs"),
)

Request = TypeVar("Request")
Response = TypeVar("Response")


class GrpcNodeLink:
    """The link to one incarnation of one node, from `start` to `close`."""

    def __init__(
        self,
        node: NodeState,
        *,
        clock: Clock,
        schedule: Callable[[Callable[[], None]], object],
        on_failure: Callable[[str, BaseException], None],
        budget: MemoryBudget,
        append_owner: AppendOwner | None = None,
    ) -> None:
        """`budget` says whether there is room for fetched bytes.

        `append_owner` is that of all groups of appends.
        """
        self.node_id = node.node_id
        self.state = node
        channel = open_channel(
            node.address, message_bytes_max=MESSAGE_BYTES_MAX, idempotent_methods=_IDEMPOTENT
        )
        self._channel = channel
        self._stub = rpc.PartitionServiceStub(channel)  # type: ignore[no-untyped-call]
        self._files = SegmentFiles(node.log_dirs, node.incarnation)
        self._append = AppendStream(
            channel,
            clock=clock,
            schedule=schedule,
            on_encode_failure=lambda error: on_failure("encode-append", error),
            owner=append_owner,
        )
        self._fetch = FetchStream(channel, self._files, budget)
        self._coordinate = CoordinateStream(channel)
        self._on_failure = on_failure
        self._tasks = TaskOwner(on_failure)
        self._fenced = False
        self._calls: set[grpc.aio.Call] = set()
        """Unary calls in flight."""
        self.append = self._append.gatherer.append
        self.append_group = self._append.gatherer.append_group
        self.appends_under_way = self._append.under_way
        self.recall_appends = self._append.recall
        self.fetch: Callable[[FetchWork], None] = self._fetch.fetch
        self.cancel_fetch: Callable[[FetchWork], None] = self._fetch.cancel
        self.submit: Callable[[CoordinatorCall], None] = self._coordinate.submit
        self.cancel: Callable[[CoordinatorCall], None] = self._coordinate.cancel

    def start(self) -> None:
        """Opens the streams."""
        for part in (self._append, self._fetch, self._coordinate):
            name = f"node-{self.node_id}-{type(part).__name__}"
            self._tasks.start(self._keep(part.stream, name), name=name)

    async def _keep(self, stream: Stream, name: str) -> None:
        """Runs a stream until cancelled, and restarts it after a bug: all clients need it."""
        while True:
            try:
                await stream.run()
            except Exception as error:  # noqa: BLE001 - reported, and `end` answers all waits.
                self._on_failure(name, error)
            stream.end("the stream met a bug")
            await asyncio.sleep(REOPEN_DELAYS_S[-1])

    @property
    def reads_files(self) -> bool:
        """True if fetches are answered by references to files that this process can open."""
        return self._files.readable

    @property
    def open_segment_files(self) -> int:
        """How many of the node's files are open here; 0 if its answers carry bytes."""
        return self._files.open_files

    @property
    def groups_sent(self) -> int:
        """Groups of appends that were written to the stream so far."""
        return self._append.groups_sent

    @property
    def takes_appends(self) -> bool:
        """True while the stream of appends is open."""
        return self._append.stream.is_open

    def expire(self, now_ms: int) -> None:
        """Answers appends whose deadline has passed; called a few times a second."""
        self._append.expire(now_ms)
        self._files.drop_deleted()

    def set_fenced(self, fenced: bool) -> None:
        """Ends all fetches and calls while the node is fenced, new ones at once.

        `HeldProduce` looks after appends.
        """
        if fenced == self._fenced:
            return
        self._fenced = fenced
        self._fetch.set_fenced(fenced)
        self._coordinate.set_fenced(fenced)
        if fenced:
            for call in self._calls:
                call.cancel()

    async def close(self) -> None:
        """Ends the streams; all requests that wait are answered."""
        await self._tasks.close(timeout_s=2)
        for part in (self._append, self._fetch, self._coordinate):
            part.stream.end("the partition node is gone")
        self._append.fail_all("the partition node is gone")
        self._files.close()
        await self._channel.close(None)

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, timeout_s: float
    ) -> pb.ListOffsetsResponse:
        """Answers in the order of the request; raises UnreachableError."""
        return await self._call(self._stub.ListOffsets, request, timeout_s)

    async def offsets_for_leader_epoch(
        self, request: pb.OffsetsForLeaderEpochRequest, timeout_s: float
    ) -> pb.OffsetsForLeaderEpochResponse:
        """Answers in the order of the request; raises UnreachableError."""
        return await self._call(self._stub.OffsetsForLeaderEpoch, request, timeout_s)

    async def describe_log_dirs(
        self, request: pb.DescribeLogDirsRequest, timeout_s: float
    ) -> pb.DescribeLogDirsResponse:
        """All directories of the node; raises UnreachableError."""
        return await self._call(self._stub.DescribeLogDirs, request, timeout_s)

    async def _call(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[Request, Response]",
        request: Request,
        timeout_s: float,
    ) -> Response:
        call = method(request, timeout=timeout_s)
        self._calls.add(call)
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise UnreachableError(f"node {self.node_id}: {error.details()}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise UnreachableError(f"node {self.node_id} was fenced") from None
        finally:
            self._calls.discard(call)
