"""A `NodeLink` over gRPC: one channel, three streams, and unary calls for rarer requests.

The channel is of the loop's own sockets or of grpcio, as the setting `hop.transport` says.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.clients.append_stream import OUTSTANDING_MAX, AppendStream
from highwater.gateway.clients.coordinate_stream import CoordinateStream
from highwater.gateway.clients.fetch_stream import FetchStream
from highwater.gateway.core.budget import MemoryBudget
from highwater.hop.append import AppendOwner
from highwater.hop.channels import HopChannels
from highwater.hop.coordinator import CoordinatorCall
from highwater.hop.fetch import FetchSet, FetchWork
from highwater.hop.segment_files import SegmentFiles
from highwater.hop.settings import HopTransport
from highwater.hop.transport import path_of
from highwater.hop.unix_socket import socket_of
from highwater.model.cluster import NodeState
from highwater.model.errors import UnreachableError
from highwater.model.steps import Steps
from highwater.model.time import Clock
from highwater.rpc.errors import RpcError

Response = TypeVar("Response", bound=Message)


class GrpcNodeLink:
    """The link to one incarnation of one node, from `start` to `close`."""

    def __init__(
        self,
        node: NodeState,
        *,
        channels: HopChannels,
        clock: Clock,
        schedule: Callable[[Callable[[], None]], object],
        on_failure: Callable[[str, BaseException], None],
        budget: MemoryBudget,
        append_owner: AppendOwner | None = None,
        transport: HopTransport = HopTransport.LOOP,
    ) -> None:
        """`channels` are over `transport`. `budget` says whether there is room for fetched bytes.

        `append_owner` is that of all groups of appends.
        """
        self.node_id = node.node_id
        self.state = node
        self._on_failure = on_failure
        self._channels = channels
        self._channel = channel = channels.open(
            node.address, socket_of(node.log_dirs, node.incarnation)
        )
        self._files = SegmentFiles(node.log_dirs, node.incarnation)
        self._append = AppendStream(
            channel,
            clock=clock,
            schedule=schedule,
            on_bug=partial(self._stream_bug, "Append"),
            on_encode_failure=lambda error: on_failure("encode-append", error),
            owner=append_owner,
            outstanding_max=OUTSTANDING_MAX[transport],
        )
        self._fetch = FetchStream(
            channel, self._files, budget, on_bug=partial(self._stream_bug, "Fetch")
        )
        self._coordinate = CoordinateStream(channel, on_bug=partial(self._stream_bug, "Coordinate"))
        self._fenced = False
        self._calls: set[asyncio.Timeout] = set()
        """Unary calls in flight, each with what ends it when the node is fenced."""
        self.append = self._append.gatherer.append
        self.append_group = self._append.gatherer.append_group
        self.appends_under_way = self._append.under_way
        self.recall_appends = self._append.recall
        self.fetch: Callable[[FetchWork], None] = self._fetch.fetch
        self.cancel_fetch: Callable[[FetchWork], None] = self._fetch.cancel
        self.end_fetch_set: Callable[[FetchSet], None] = self._fetch.end_fetch_set
        self.submit: Callable[[CoordinatorCall], None] = self._coordinate.submit
        self.cancel: Callable[[CoordinatorCall], None] = self._coordinate.cancel

    def start(self) -> None:
        """Opens the streams."""
        for part in (self._append, self._fetch, self._coordinate):
            part.stream.start()

    def _stream_bug(self, method: str, error: Exception) -> None:
        """The stream is opened again: all clients need it."""
        self._on_failure(f"node-{self.node_id}-{method}", error)

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
    def fetches_sent(self) -> int:
        """Fetches that were written to the stream so far."""
        return self._fetch.fetches_sent

    @property
    def takes_appends(self) -> bool:
        """True while the stream of appends is open."""
        return self._append.stream.is_open

    def expire(self, now_ms: int) -> None:
        """Answers appends whose deadline has passed; called a few times a second."""
        self._append.expire(now_ms)
        self._files.drop_deleted()

    def set_fenced(self, fenced: bool) -> None:
        """While the node is fenced, new fetches and calls are answered at once, and unary calls end;
        `ending_waits` ends the rest. `HeldProduce` looks after appends.
        """
        if fenced == self._fenced:
            return
        self._fenced = fenced
        self._fetch.set_fenced(fenced)
        self._coordinate.set_fenced(fenced)
        if fenced:
            now_s = asyncio.get_running_loop().time()
            calls, self._calls = self._calls, set()  # Each can be ended once.
            for fencing in calls:
                fencing.reschedule(now_s)

    def ending_waits(self) -> Steps[None]:
        """Answers the fetches and calls that wait for a fenced node, in steps."""
        yield from self._fetch.ending_waits()
        yield from self._coordinate.ending_waits()

    async def close(self) -> None:
        """Ends the streams; all requests that wait are answered."""
        for part in (self._append, self._fetch, self._coordinate):
            part.end("the partition node is gone")
        self._files.close()
        await self._channels.close(self._channel)

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, timeout_s: float
    ) -> pb.ListOffsetsResponse:
        """Answers in the order of the request; raises UnreachableError."""
        return await self._call("ListOffsets", request, pb.ListOffsetsResponse, timeout_s)

    async def offsets_for_leader_epoch(
        self, request: pb.OffsetsForLeaderEpochRequest, timeout_s: float
    ) -> pb.OffsetsForLeaderEpochResponse:
        """Answers in the order of the request; raises UnreachableError."""
        return await self._call(
            "OffsetsForLeaderEpoch", request, pb.OffsetsForLeaderEpochResponse, timeout_s
        )

    async def describe_producers(
        self, request: pb.DescribeProducersRequest, timeout_s: float
    ) -> pb.DescribeProducersResponse:
        """Answers in the order of the request; raises UnreachableError."""
        return await self._call(
            "DescribeProducers", request, pb.DescribeProducersResponse, timeout_s
        )

    async def delete_records(
        self, request: pb.DeleteRecordsRequest, timeout_s: float
    ) -> pb.DeleteRecordsResponse:
        """Answers in the order of the request; raises UnreachableError, and the node may have deleted
        the records all the same.
        """
        return await self._call(
            "DeleteRecords", request, pb.DeleteRecordsResponse, timeout_s, idempotent=False
        )

    async def write_txn_markers(
        self, request: pb.WriteTxnMarkersRequest, timeout_s: float
    ) -> pb.WriteTxnMarkersResponse:
        """Answers in the order of the request; raises UnreachableError, and markers may have been
        written all the same: a second one could end the producer's next transaction.
        """
        return await self._call(
            "WriteTxnMarkers", request, pb.WriteTxnMarkersResponse, timeout_s, idempotent=False
        )

    async def describe_log_dirs(
        self, request: pb.DescribeLogDirsRequest, timeout_s: float
    ) -> pb.DescribeLogDirsResponse:
        """All directories of the node; raises UnreachableError."""
        return await self._call("DescribeLogDirs", request, pb.DescribeLogDirsResponse, timeout_s)

    async def alter_log_dirs(
        self, request: pb.AlterLogDirsRequest, timeout_s: float
    ) -> pb.AlterLogDirsResponse:
        """Answers in the order of the request; raises UnreachableError, and the node may have
        remembered the directories all the same.
        """
        return await self._call(
            "AlterLogDirs", request, pb.AlterLogDirsResponse, timeout_s, idempotent=False
        )

    async def describe_loggers(
        self, request: pb.DescribeLoggersRequest, timeout_s: float
    ) -> pb.DescribeLoggersResponse:
        """All loggers of the node's process; raises UnreachableError."""
        return await self._call("DescribeLoggers", request, pb.DescribeLoggersResponse, timeout_s)

    async def alter_loggers(
        self, request: pb.AlterLoggersRequest, timeout_s: float
    ) -> pb.AlterLoggersResponse:
        """Changes all of the levels or none; raises UnreachableError, and the node may have changed
        them all the same.
        """
        return await self._call(
            "AlterLoggers", request, pb.AlterLoggersResponse, timeout_s, idempotent=False
        )

    async def _call(
        self,
        method: str,
        request: Message,
        response_type: type[Response],
        timeout_s: float,
        *,
        idempotent: bool = True,
    ) -> Response:
        fencing = asyncio.timeout(None)
        self._calls.add(fencing)
        try:
            async with fencing:
                return await self._channel.unary(
                    path_of(method),
                    request,
                    serialize=_serialize,
                    # Generated code declares bytes and takes any buffer.
                    deserialize=response_type.FromString,  # type: ignore[arg-type]
                    timeout_s=timeout_s,
                    idempotent=idempotent,
                )
        except RpcError as error:
            raise UnreachableError(f"node {self.node_id}: {error.details}") from error
        except TimeoutError:
            raise UnreachableError(f"node {self.node_id} was fenced") from None
        finally:
            self._calls.discard(fencing)


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
