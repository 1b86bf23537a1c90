"""QuotaService.Report: usage up, allocations down, one stream per node.

Once the limits are known, a node gets allocations in answer to each report, and whenever limits,
leaders or shares change. A stream that is silent for too long is closed, so that a hanging node is forgotten
like a dead one.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NoReturn

import grpc
import grpc.aio

from highwater.api.quota.v1 import quota_service_pb2 as pb
from highwater.api.quota.v1 import quota_service_pb2_grpc as rpc
from highwater.metadata.status import REASON_KEY, Context
from highwater.model.errors import HighwaterError, InvalidRequestError, StaleNodeEpochError
from highwater.model.ids import NodeId
from highwater.model.time import Clock
from highwater.quota.rpc.convert import allocations_to_pb, usage_from_pb
from highwater.quota.sharing.ledger import Ledger
from highwater.quota.sharing.metrics import QuotaMetrics
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

SILENCE_TICKS_MAX: Final = 10

_CANCEL_TIMEOUT_S: Final = 1.0

_STATUS: Final = {
    InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    StaleNodeEpochError: grpc.StatusCode.FAILED_PRECONDITION,
}


class QuotaServicer(rpc.QuotaServiceServicer):
    """Connects the nodes' streams to the ledger. Lives as long as its server."""

    def __init__(
        self, ledger: Ledger, metrics: QuotaMetrics, clock: Clock, log: Logger, *, tick_ms: int
    ) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._clock = clock
        self._log = log
        self._silence_s = _silence_s(tick_ms)
        self._changed: set[asyncio.Event] = set()
        self._streams = 0

    def notify(self, but: asyncio.Event | None = None) -> None:
        """Makes every stream send its node the current allocations, except that of `but`."""
        for event in self._changed:
            if event is not but:
                event.set()

    async def Report(  # noqa: N802 - the name is the proto's.
        self, request_iterator: AsyncIterator[pb.UsageReport], context: Context
    ) -> AsyncIterator[pb.Allocations]:
        """See the module; aborts with INVALID_ARGUMENT or FAILED_PRECONDITION."""
        changed = asyncio.Event()
        self._changed.add(changed)
        self._streams += 1
        stream = self._streams
        self._metrics.streams.inc()
        tasks = TaskOwner(lambda _name, _error: None, tasks_max=2)  # Failures end the stream.
        node: NodeId | None = None
        silence_s = self._silence_s
        try:
            reports = aiter(request_iterator)
            reading = tasks.start(_next(reports), name="quota-report-read")
            waiting = tasks.start(changed.wait(), name="quota-report-changed")
            while True:
                done, _ = await asyncio.wait(
                    (reading, waiting),
                    timeout=silence_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:
                    self._log.warning("report_stream_silent", node=node)
                    return
                if reading.done():
                    report = reading.result()
                    if report is None:
                        return
                    node, others_wait = await self._take(report, stream, context)
                    if others_wait:
                        self.notify(but=changed)
                    # The node has its own tick, which may be longer than ours.
                    silence_s = max(self._silence_s, _silence_s(report.tick_ms))
                    reading = tasks.start(_next(reports), name="quota-report-read")
                if waiting.done():
                    changed.clear()
                    waiting = tasks.start(changed.wait(), name="quota-report-changed")
                if node in self._ledger.nodes and self._ledger.informed:
                    yield self._answer(node)
        finally:
            self._changed.discard(changed)
            self._metrics.streams.dec()
            if node is not None:
                self._ledger.forget(node, stream, self._clock.monotonic_ms())
            await tasks.close(timeout_s=_CANCEL_TIMEOUT_S)

    async def _take(
        self, report: pb.UsageReport, stream: int, context: Context
    ) -> tuple[NodeId, bool]:
        try:
            usage = usage_from_pb(report)
            others_wait = self._ledger.report(usage, self._clock.monotonic_ms(), stream)
        except (InvalidRequestError, StaleNodeEpochError) as error:
            await self._refuse(error, context)
        self._metrics.reports.inc()
        return usage.node_id, others_wait

    async def _refuse(self, error: HighwaterError, context: Context) -> NoReturn:
        self._metrics.reports_refused.labels(reason=error.reason).inc()
        self._log.warning("report_refused", reason=error.reason, error=str(error))
        await context.abort(_STATUS[type(error)], str(error), ((REASON_KEY, error.reason),))

    def _answer(self, node: NodeId) -> pb.Allocations:
        self._metrics.allocations.inc()
        return allocations_to_pb(self._ledger.allocations_for(node, self._clock.monotonic_ms()))


def _silence_s(tick_ms: int) -> float:
    return SILENCE_TICKS_MAX * tick_ms / 1000


async def _next(reports: AsyncIterator[pb.UsageReport]) -> pb.UsageReport | None:
    return await anext(reports, None)
