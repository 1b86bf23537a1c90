"""PartitionService on a server of the hop: raw streams for the data plane, protobuf for the rest."""

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.coordinator import CoordinatorPort
from highwater.hop.transport import path_of
from highwater.model.ids import TopicId
from highwater.partition.data_plane.markers import Markers
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.record_deletions import RecordDeletions
from highwater.partition.edge.coordinate_one import coordinate_one
from highwater.partition.edge.replicate_stream import replicate_handler
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.edge.streams import append_handler, coordinate_handler, fetch_handler
from highwater.partition.node.log_dirs import LogDirRequests
from highwater.partition.node.loggers import LoggerQueries
from highwater.partition.node.node_replication import NodeReplication
from highwater.partition.replication.leader.range_reads import read_range
from highwater.rpc.methods import Methods
from highwater.rpc.ports import ServerStreamCall
from highwater.rpc.reports import OnFailure


def add_to(
    methods: Methods,
    *,
    plane: DataPlane,
    queries: OffsetQueries,
    log_dirs: LogDirRequests,
    loggers: LoggerQueries,
    coordinator: CoordinatorPort,
    drain: StreamDrain,
    on_failure: OnFailure,
    replication: NodeReplication | None = None,
) -> None:
    """Adds the methods of a node's data plane; `drain` ends the streams.

    `replication` has the throttle for followers of this node's leaders, and counts their bytes.
    """
    methods.add_stream(path_of("Append"), append_handler(plane, drain, on_failure))
    methods.add_stream(path_of("Fetch"), fetch_handler(plane, drain, on_failure))
    methods.add_stream(path_of("Coordinate"), coordinate_handler(coordinator, drain, on_failure))
    methods.add_stream(
        path_of("Replicate"),
        replicate_handler(
            plane,
            drain,
            on_failure,
            throttle=None if replication is None else replication.leader_throttle,
            traffic=None if replication is None else replication.traffic,
        ),
    )
    unary = _UnaryMethods(plane, queries, log_dirs, loggers, coordinator)
    _add_records(methods, unary)
    _add_administration(methods, unary)


def _add_records(methods: Methods, unary: "_UnaryMethods") -> None:
    """What concerns records and coordinators."""
    methods.add_unary(
        path_of("ListOffsets"),
        unary.list_offsets,
        deserialize=pb.ListOffsetsRequest.FromString,
        serialize=pb.ListOffsetsResponse.SerializeToString,
    )
    methods.add_unary(
        path_of("OffsetsForLeaderEpoch"),
        unary.offsets_for_leader_epoch,
        deserialize=pb.OffsetsForLeaderEpochRequest.FromString,
        serialize=pb.OffsetsForLeaderEpochResponse.SerializeToString,
    )
    methods.add_unary(
        path_of("DescribeProducers"),
        unary.describe_producers,
        deserialize=pb.DescribeProducersRequest.FromString,
        serialize=pb.DescribeProducersResponse.SerializeToString,
    )
    methods.add_unary(
        path_of("DeleteRecords"),
        unary.delete_records,
        deserialize=pb.DeleteRecordsRequest.FromString,
        serialize=pb.DeleteRecordsResponse.SerializeToString,
    )
    methods.add_unary(
        path_of("WriteTxnMarkers"),
        unary.write_txn_markers,
        deserialize=pb.WriteTxnMarkersRequest.FromString,
        serialize=pb.WriteTxnMarkersResponse.SerializeToString,
    )
    methods.add_unary(
        path_of("CoordinateOne"),
        unary.coordinate_one,
        deserialize=pb.CoordinatorCall.FromString,
        serialize=pb.CoordinatorReply.SerializeToString,
    )
    methods.add_unary(
        path_of("ReadRange"),
        unary.read_range,
        deserialize=pb.ReadRangeRequest.FromString,
        serialize=pb.ReadRangeResponse.SerializeToString,
    )


def _add_administration(methods: Methods, unary: "_UnaryMethods") -> None:
    """What operators' tools ask of the node itself."""
    methods.add_unary(
        path_of("DescribeLogDirs"),
        unary.describe_log_dirs,
        deserialize=pb.DescribeLogDirsRequest.FromString,
        serialize=pb.DescribeLogDirsResponse.SerializeToString,
    )
    methods.add_unary(
        path_of("AlterLogDirs"),
        unary.alter_log_dirs,
        deserialize=pb.AlterLogDirsRequest.FromString,
        serialize=pb.AlterLogDirsResponse.SerializeToString,
    )
    methods.add_unary(
        path_of("DescribeLoggers"),
        unary.describe_loggers,
        deserialize=pb.DescribeLoggersRequest.FromString,
        serialize=pb.DescribeLoggersResponse.SerializeToString,
    )
    methods.add_unary(
        path_of("AlterLoggers"),
        unary.alter_loggers,
        deserialize=pb.AlterLoggersRequest.FromString,
        serialize=pb.AlterLoggersResponse.SerializeToString,
    )


class _UnaryMethods:
    """Requests that come rarely."""

    def __init__(
        self,
        plane: DataPlane,
        queries: OffsetQueries,
        log_dirs: LogDirRequests,
        loggers: LoggerQueries,
        coordinator: CoordinatorPort,
    ) -> None:
        self._plane = plane
        self._queries = queries
        self._deletions = RecordDeletions(plane)
        self._markers = Markers(plane)
        self._log_dirs = log_dirs
        self._loggers = loggers
        self._coordinator = coordinator

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, _call: ServerStreamCall
    ) -> pb.ListOffsetsResponse:
        return await self._queries.list_offsets(request)

    async def offsets_for_leader_epoch(
        self, request: pb.OffsetsForLeaderEpochRequest, _call: ServerStreamCall
    ) -> pb.OffsetsForLeaderEpochResponse:
        return self._queries.offsets_for_leader_epoch(request)

    async def describe_producers(
        self, request: pb.DescribeProducersRequest, _call: ServerStreamCall
    ) -> pb.DescribeProducersResponse:
        return await self._queries.describe_producers(request)

    async def delete_records(
        self, request: pb.DeleteRecordsRequest, _call: ServerStreamCall
    ) -> pb.DeleteRecordsResponse:
        return await self._deletions.delete(request)

    async def write_txn_markers(
        self, request: pb.WriteTxnMarkersRequest, _call: ServerStreamCall
    ) -> pb.WriteTxnMarkersResponse:
        return await self._markers.write(request)

    async def coordinate_one(
        self, request: pb.CoordinatorCall, _call: ServerStreamCall
    ) -> pb.CoordinatorReply:
        return await coordinate_one(self._coordinator, request)

    async def describe_log_dirs(
        self, request: pb.DescribeLogDirsRequest, _call: ServerStreamCall
    ) -> pb.DescribeLogDirsResponse:
        return await self._log_dirs.describe(request)

    async def alter_log_dirs(
        self, request: pb.AlterLogDirsRequest, _call: ServerStreamCall
    ) -> pb.AlterLogDirsResponse:
        return await self._log_dirs.alter(request)

    async def describe_loggers(
        self, _request: pb.DescribeLoggersRequest, _call: ServerStreamCall
    ) -> pb.DescribeLoggersResponse:
        return self._loggers.describe()

    async def alter_loggers(
        self, request: pb.AlterLoggersRequest, _call: ServerStreamCall
    ) -> pb.AlterLoggersResponse:
        return self._loggers.alter(request)

    async def read_range(
        self, request: pb.ReadRangeRequest, _call: ServerStreamCall
    ) -> pb.ReadRangeResponse:
        plane = self._plane
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
