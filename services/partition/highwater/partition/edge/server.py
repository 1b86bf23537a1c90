"""PartitionService on a gRPC server: raw streams for the data plane, protobuf for the rest."""

import socket
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.coordinator import CoordinatorPort
from highwater.model.ids import TopicId
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.edge.replicate_stream import replicate_stream
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.edge.streams import (
    StreamContext,
    append_stream,
    coordinate_stream,
    fetch_stream,
)
from highwater.partition.node.log_dirs import LogDirQueries
from highwater.partition.node.node_replication import NodeReplication
from highwater.partition.replication.leader.range_reads import read_range

SERVICE: Final = "highwater.api.partition.v1.PartitionService"
MESSAGE_BYTES_MAX: Final = 128 << 20
"""One batch may be as large as a client's frame, and travels in one message."""
ALL_ADDRESSES: Final = ("0.0.0.0", "::", "[::]")


def add_to_server(
    plane: DataPlane,
    queries: OffsetQueries,
    log_dirs: LogDirQueries,
    coordinator: CoordinatorPort,
    drain: StreamDrain,
    replication: NodeReplication | None = None,
) -> Callable[[grpc.aio.Server], None]:
    """What `GrpcServer.register` needs to serve a node's data plane; `drain` ends the streams.

    `replication` has the throttle for followers of this node's leaders, and counts their bytes.
    """
    throttle = None if replication is None else replication.leader_throttle
    traffic = None if replication is None else replication.traffic

    async def append(_requests: object, context: StreamContext) -> None:
        await append_stream(plane, context, drain)

    async def fetch(_requests: object, context: StreamContext) -> None:
        await fetch_stream(plane, context, drain)

    async def coordinate(_requests: object, context: StreamContext) -> None:
        await coordinate_stream(coordinator, context, drain)

    async def replicate(_requests: object, context: StreamContext) -> None:
        await replicate_stream(plane, context, drain, throttle=throttle, traffic=traffic)

    async def list_offsets(
        request: pb.ListOffsetsRequest, _context: object
    ) -> pb.ListOffsetsResponse:
        return queries.list_offsets(request)

    async def offsets_for_leader_epoch(
        request: pb.OffsetsForLeaderEpochRequest, _context: object
    ) -> pb.OffsetsForLeaderEpochResponse:
        return queries.offsets_for_leader_epoch(request)

    async def describe_log_dirs(
        request: pb.DescribeLogDirsRequest, _context: object
    ) -> pb.DescribeLogDirsResponse:
        return await log_dirs.describe(request)

    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Append": grpc.stream_stream_rpc_method_handler(append),
        "Fetch": grpc.stream_stream_rpc_method_handler(fetch),
        "Coordinate": grpc.stream_stream_rpc_method_handler(coordinate),
        "Replicate": grpc.stream_stream_rpc_method_handler(replicate),
        "ReadRange": _read_range_handler(plane),
        "ListOffsets": grpc.unary_unary_rpc_method_handler(
            list_offsets,
            request_deserializer=pb.ListOffsetsRequest.FromString,
            response_serializer=pb.ListOffsetsResponse.SerializeToString,
        ),
        "OffsetsForLeaderEpoch": grpc.unary_unary_rpc_method_handler(
            offsets_for_leader_epoch,
            request_deserializer=pb.OffsetsForLeaderEpochRequest.FromString,
            response_serializer=pb.OffsetsForLeaderEpochResponse.SerializeToString,
        ),
        "DescribeLogDirs": grpc.unary_unary_rpc_method_handler(
            describe_log_dirs,
            request_deserializer=pb.DescribeLogDirsRequest.FromString,
            response_serializer=pb.DescribeLogDirsResponse.SerializeToString,
        ),
    }

    def add(server: grpc.aio.Server) -> None:
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    return add


def _read_range_handler(
    plane: DataPlane,
) -> "grpc.RpcMethodHandler[pb.ReadRangeRequest, pb.ReadRangeResponse]":
    async def read_records(request: pb.ReadRangeRequest, _context: object) -> pb.ReadRangeResponse:
        code, records = await read_range(
            plane.replicas.get((TopicId(request.topic_id), request.partition)),
            leader_epoch=request.leader_epoch,
            offset=request.offset,
            end_offset=request.end_offset,
            max_bytes=request.max_bytes,
            damaged=plane.damaged,
            whole=plane.is_whole,
        )
        return pb.ReadRangeResponse(error_code=int(code), records=records)

    return grpc.unary_unary_rpc_method_handler(
        read_records,
        request_deserializer=pb.ReadRangeRequest.FromString,
        response_serializer=pb.ReadRangeResponse.SerializeToString,
    )


def reachable(address: str) -> str:
    """An address for others: the machine's host name where the server listens on all addresses."""
    host, _, port = address.rpartition(":")
    return f"{socket.gethostname()}:{port}" if host in ALL_ADDRESSES else address
