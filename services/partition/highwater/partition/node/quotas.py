"""The node's side of quotas: its meters, and the stream that gets it shares of the limits."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from highwater.model.cluster import ClusterImage
from highwater.model.ids import InstanceId
from highwater.partition.node.replicas import Replicas
from highwater.partition.quota.meter import NodeMeters
from highwater.partition.quota.reporter import QuotaReporter, QuotaServiceLink, QuotaStub
from highwater.rpc.inner import Inner
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

FIRST_SHARES_TIMEOUT_S: Final = 1.0
"""The quota service answers at once if it runs; without it the node serves all the same."""


class NodeQuotas:
    """On the node's loop, as long as the node."""

    def __init__(self, addresses: str, now_ms: Callable[[], int], log: Logger) -> None:
        """`addresses` are those of quota services, the preferred one first, separated by commas."""
        self._addresses = [one.strip() for one in addresses.split(",") if one.strip()]
        self._log = log
        self.meters = NodeMeters(now_ms)
        self._stubs: list[QuotaStub] = []
        self._reporter: QuotaReporter | None = None
        self._led = 0

    def connect(self, stub: QuotaStub) -> None:
        """A QuotaService of this process, in place of the addresses."""
        self._stubs = [stub]

    async def start(
        self,
        *,
        identity: Callable[[], tuple[int, int]],
        replicas: Replicas,
        image: ClusterImage | None,
        inner: Inner | None = None,
        tasks: TaskOwner,
        stack: AsyncExitStack,
    ) -> None:
        """Keeps in touch with the quota service, if there is one. If instances are limited it waits for
        the node's shares a moment, so that a restart opens none that is at its storage limit. `inner` is
        what services show one another.
        """
        stubs = list(self._stubs)
        for address in [] if stubs else self._addresses:
            link = QuotaServiceLink(address, inner)
            stack.push_async_callback(link.close)
            stubs.append(link)
        if not stubs:
            return
        reporter = self._reporter = QuotaReporter(
            stubs,
            self.meters,
            identity=identity,
            leaders=lambda: _leaders_by_instance(replicas),
            log=self._log,
        )
        tasks.start(reporter.run(), name="quota-reports")
        if image is None or not any(one.has_traffic_limits for one in image.instances.values()):
            return
        try:
            async with asyncio.timeout(FIRST_SHARES_TIMEOUT_S):
                await reporter.informed.wait()
        except TimeoutError:
            self._log.warning("no_shares_yet", timeout_s=FIRST_SHARES_TIMEOUT_S)

    def image_applied(self, leader_count: int) -> None:
        """Reports soon if this node leads more or less than before."""
        if leader_count != self._led and self._reporter is not None:
            self._reporter.report_soon()
        self._led = leader_count


def _leaders_by_instance(replicas: Replicas) -> dict[InstanceId, tuple[int, int]]:
    return {
        instance: (len(found), sum(replica.log.extent.size_bytes for replica in found))
        for instance, found in replicas.leaders_by_instance().items()
    }
