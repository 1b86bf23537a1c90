"""The port to a partition node, for gateways."""

from typing import Final, Protocol

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import AppendRoute, AppendSink, Batch, TransactionalWrite
from highwater.hop.coordinator import CoordinatorCall
from highwater.hop.fetch import FetchSet, FetchWork
from highwater.model.ids import NodeId

ENDED_IN_STEP: Final = 16
"""Waiting requests of a fenced node that are answered in one step: a third of a millisecond, as most
clients ask again at once."""


class ProduceTarget(Protocol):
    """Takes batches: a link, or the object that holds them until there is one."""

    def append(
        self,
        route: AppendRoute,
        acks: int,
        batch: Batch,
        nbytes: int,
        sink: AppendSink,
        index: int,
        deadline_ms: int,
        transaction: TransactionalWrite | None = None,
    ) -> None:
        """Queues one batch; order per partition is the order of these calls.

        `deadline_ms` is on the caller's monotonic clock. `transaction` is that of the batch.
        """
        ...


class NodeLink(ProduceTarget, Protocol):
    """One partition node, in process or over gRPC. No call blocks, or raises because of load."""

    node_id: NodeId

    def fetch(self, work: FetchWork) -> None:
        """Starts a fetch; `work.done` is called later, or at once."""
        ...

    def cancel_fetch(self, work: FetchWork) -> None:
        """Forgets a fetch whose client has disconnected."""
        ...

    def end_fetch_set(self, fetch_set: FetchSet) -> None:
        """Lets the node forget a set that nobody will fetch again; no fetch of it is under way."""
        ...

    def submit(self, call: CoordinatorCall) -> None:
        """Sends a coordinator call."""
        ...

    def cancel(self, call: CoordinatorCall) -> None:
        """Forgets a coordinator call whose client has disconnected."""
        ...

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, timeout_s: float
    ) -> pb.ListOffsetsResponse:
        """Answers in the order of the request; raises HighwaterError if the node is away."""
        ...

    async def offsets_for_leader_epoch(
        self, request: pb.OffsetsForLeaderEpochRequest, timeout_s: float
    ) -> pb.OffsetsForLeaderEpochResponse:
        """Answers in the order of the request; raises HighwaterError if the node is away."""
        ...

    async def describe_producers(
        self, request: pb.DescribeProducersRequest, timeout_s: float
    ) -> pb.DescribeProducersResponse:
        """Answers in the order of the request; raises HighwaterError if the node is away."""
        ...

    async def delete_records(
        self, request: pb.DeleteRecordsRequest, timeout_s: float
    ) -> pb.DeleteRecordsResponse:
        """Answers in the order of the request; raises HighwaterError if the node is away, and it may
        have deleted the records all the same.
        """
        ...

    async def write_txn_markers(
        self, request: pb.WriteTxnMarkersRequest, timeout_s: float
    ) -> pb.WriteTxnMarkersResponse:
        """Answers in the order of the request; raises HighwaterError if the node is away, and it may
        have written the markers all the same, which does no harm.
        """
        ...

    async def describe_log_dirs(
        self, request: pb.DescribeLogDirsRequest, timeout_s: float
    ) -> pb.DescribeLogDirsResponse:
        """All log directories of the node; raises HighwaterError if the node is away."""
        ...

    async def alter_log_dirs(
        self, request: pb.AlterLogDirsRequest, timeout_s: float
    ) -> pb.AlterLogDirsResponse:
        """Answers in the order of the request; raises HighwaterError if the node is away, and it may
        have remembered the directories all the same.
        """
        ...

    async def describe_loggers(
        self, request: pb.DescribeLoggersRequest, timeout_s: float
    ) -> pb.DescribeLoggersResponse:
        """All loggers of the node's process; raises HighwaterError if the node is away."""
        ...

    async def alter_loggers(
        self, request: pb.AlterLoggersRequest, timeout_s: float
    ) -> pb.AlterLoggersResponse:
        """Changes all of the levels or none; raises HighwaterError if the node is away, and it may
        have changed them all the same.
        """
        ...
