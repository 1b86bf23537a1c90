"""A gateway's link to a partition node in the same process: no copy, no message, no thread."""

import asyncio
from collections.abc import Callable
from functools import partial

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import AppendGatherer
from highwater.hop.coordinator import CoordinatorCall, CoordinatorPort
from highwater.hop.fetch import FetchSet, FetchWork
from highwater.model.errors import UnreachableError
from highwater.model.ids import NodeId
from highwater.partition.data_plane.markers import Markers
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.record_deletions import RecordDeletions
from highwater.partition.node.log_dirs import LogDirRequests
from highwater.partition.node.loggers import LoggerQueries


class LocalLink:
    """The embedded `NodeLink` (see highwater.hop.ports). Appends are committed once per turn."""

    def __init__(
        self,
        node_id: NodeId,
        *,
        plane: DataPlane,
        queries: OffsetQueries,
        log_dirs: LogDirRequests,
        loggers: LoggerQueries,
        coordinator: CoordinatorPort,
        schedule: Callable[[Callable[[], None]], object],
    ) -> None:
        self.node_id = node_id
        self._queries = queries
        self._deletions = RecordDeletions(plane)
        self._markers = Markers(plane)
        self._log_dirs = log_dirs
        self._loggers = loggers
        gatherer = AppendGatherer(schedule, plane.append)
        self.append = gatherer.append
        self._schedule = schedule
        self._fetch: Callable[[FetchWork], None] = plane.fetch
        self.cancel_fetch: Callable[[FetchWork], None] = plane.cancel_fetch
        self.end_fetch_set: Callable[[FetchSet], None] = plane.end_fetch_set
        self.submit: Callable[[CoordinatorCall], None] = coordinator.submit
        self.cancel: Callable[[CoordinatorCall], None] = coordinator.cancel

    def fetch(self, work: FetchWork) -> None:
        """Starts a fetch. If it waits, an append answers it; see `_Guarded`."""
        self._fetch(work)
        if work.waiting is not None and type(work.done) is not _Guarded:
            work.done = _Guarded(work.done, self._schedule)

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, timeout_s: float
    ) -> pb.ListOffsetsResponse:
        """Answers in the order of the request; raises UnreachableError if a disk takes longer."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._queries.list_offsets(request)
        except TimeoutError:
            raise UnreachableError(
                f"node {self.node_id} did not answer within {timeout_s:g} s"
            ) from None

    async def offsets_for_leader_epoch(
        self, request: pb.OffsetsForLeaderEpochRequest, _timeout_s: float
    ) -> pb.OffsetsForLeaderEpochResponse:
        """Answers in the order of the request."""
        return self._queries.offsets_for_leader_epoch(request)

    async def describe_producers(
        self, request: pb.DescribeProducersRequest, _timeout_s: float
    ) -> pb.DescribeProducersResponse:
        """Answers in the order of the request."""
        return await self._queries.describe_producers(request)

    async def delete_records(
        self, request: pb.DeleteRecordsRequest, _timeout_s: float
    ) -> pb.DeleteRecordsResponse:
        """Answers in the order of the request, when all is done or the request's time is over."""
        return await self._deletions.delete(request)

    async def write_txn_markers(
        self, request: pb.WriteTxnMarkersRequest, timeout_s: float
    ) -> pb.WriteTxnMarkersResponse:
        """Answers in the order of the request, when all is committed or the time is over."""
        return await self._markers.write(request, timeout_s)

    async def describe_log_dirs(
        self, request: pb.DescribeLogDirsRequest, _timeout_s: float
    ) -> pb.DescribeLogDirsResponse:
        """All directories of the node."""
        return await self._log_dirs.describe(request)

    async def alter_log_dirs(
        self, request: pb.AlterLogDirsRequest, _timeout_s: float
    ) -> pb.AlterLogDirsResponse:
        """A code for each wish."""
        return await self._log_dirs.alter(request)

    async def describe_loggers(
        self, _request: pb.DescribeLoggersRequest, _timeout_s: float
    ) -> pb.DescribeLoggersResponse:
        """All loggers of this process."""
        return self._loggers.describe()

    async def alter_loggers(
        self, request: pb.AlterLoggersRequest, _timeout_s: float
    ) -> pb.AlterLoggersResponse:
        """Changes all of the levels or none."""
        return self._loggers.alter(request)


class _Guarded:
    """Answers a waiting fetch from inside an append; an error is raised after the append's turn."""

    __slots__ = ("_done", "_schedule")

    def __init__(
        self,
        done: Callable[[FetchWork], None],
        schedule: Callable[[Callable[[], None]], object],
    ) -> None:
        self._done = done
        self._schedule = schedule

    def __call__(self, work: FetchWork) -> None:
        try:
            self._done(work)
        except Exception as error:  # noqa: BLE001 - one client's bug, not the partition's.
            self._schedule(partial(_throw, error))


def _throw(error: Exception) -> None:
    raise error
