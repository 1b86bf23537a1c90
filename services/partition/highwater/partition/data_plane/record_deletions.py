"""DeleteRecords at the leaders of this node (KIP-107): logs begin later, then replicas follow.

The answer comes when the logs of all live replicas begin at the offset or later, and will after a
crash. Sources: Kafka's `ReplicaManager.deleteRecords` and `DelayedDeleteRecords`; Kafka does not
wait for disks.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.partition.core.transitions import Role
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.data_plane.replica_role import ReplicaRole

UNKNOWN: Final = -1
"""No low watermark (`DeleteRecordsResponse.INVALID_LOW_WATERMARK` in Kafka)."""

WAIT_MS_MAX: Final = 300_000
"""Longest wait, whatever the client asks for: its connection, and what it holds, waits too."""


class RecordDeletions:
    """Has no state of its own."""

    def __init__(self, plane: DataPlane) -> None:
        """`plane` has the replicas."""
        self._plane = plane

    async def delete(self, request: pb.DeleteRecordsRequest) -> pb.DeleteRecordsResponse:
        """Answers in the order of the request, after at most its `timeout_ms`."""
        waits: dict[tuple[TopicId, int], _Wait] = {}
        found = [self._begin(asked, waits) for asked in request.partitions]
        if waits:
            await _finished(list(waits.values()), min(request.timeout_ms, WAIT_MS_MAX) / 1000)
        return pb.DeleteRecordsResponse(
            results=[one.result if isinstance(one, _Wait) else one for one in found]
        )

    def _begin(
        self, asked: pb.DeleteRecordsPartition, waits: "dict[tuple[TopicId, int], _Wait]"
    ) -> "pb.DeleteRecordsResult | _Wait":
        """Deletes; what has to be waited for is put into `waits`.

        A request may name a partition as often as its size allows. It is waited for once.
        """
        key = (TopicId(asked.topic_id), asked.partition)
        replica = self._plane.replicas.get(key)
        if replica is None:
            return _failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        refused, offset = replica.delete_records(asked.offset)
        if refused:
            return _failed(refused)
        wait = waits.get(key)
        if wait is None:
            wait = waits[key] = _Wait(replica, offset)
        wait.extend_to(offset)
        return wait


class _Wait:
    """One partition whose records the leader has deleted, until `leave`."""

    __slots__ = ("_offset", "_replica", "_settled", "result")

    def __init__(self, replica: PartitionReplica, offset: int) -> None:
        self._replica = replica
        self._offset = offset
        self._settled: Callable[[], None] | None = None
        self.result = pb.DeleteRecordsResult(
            error_code=ErrorCode.REQUEST_TIMED_OUT, low_watermark=replica.core.low_watermark()
        )

    def extend_to(self, offset: int) -> None:
        """Waits for this offset, too."""
        self._offset = max(self._offset, offset)

    def look(self, _: ReplicaRole | None = None) -> bool:
        """True if there is nothing to wait for any more; `result` then says why."""
        core = self._replica.core
        if core.role is not Role.LEADER:
            self.result = _failed(core.refuse_fetch(UNKNOWN))
        elif (low := core.low_watermark()) >= self._offset:
            self.result = pb.DeleteRecordsResult(low_watermark=low)
        else:
            return False
        if self._settled is not None:
            self._settled()
        return True

    def listen(self, settled: Callable[[], None]) -> None:
        """Calls `settled` when `look` becomes true."""
        self._settled = settled
        self._replica.listeners += (self.look,)

    def leave(self) -> None:
        """The wait is over."""
        self._settled = None
        replica = self._replica
        replica.listeners = tuple(told for told in replica.listeners if told != self.look)


async def _finished(waits: list[_Wait], timeout_s: float) -> None:
    """Returns when all have been settled, or the time is over."""
    pending = [wait for wait in waits if not wait.look()]
    if not pending:
        return
    left = set(pending)
    all_settled = asyncio.Event()

    def settled(wait: _Wait) -> None:
        wait.leave()
        left.discard(wait)
        if not left:
            all_settled.set()

    for wait in pending:
        wait.listen(partial(settled, wait))
    try:
        async with asyncio.timeout(timeout_s):
            await all_settled.wait()
    except TimeoutError:
        return
    finally:
        for wait in left:
            wait.leave()


def _failed(code: int) -> pb.DeleteRecordsResult:
    return pb.DeleteRecordsResult(error_code=code, low_watermark=UNKNOWN)
