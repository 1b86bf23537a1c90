"""The stream to the quota service: it sends usage once a tick and receives shares.

Without the service, the node's shares decay to their floors (see TokenBucket), and a node that
never got a limit serves without one: quotas protect neighbours from each other, and must not stop
anybody while their service is away.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Final, Protocol

import grpc

from highwater.api.quota.v1 import quota_service_pb2 as pb
from highwater.api.quota.v1 import quota_service_pb2_grpc as rpc
from highwater.model.ids import InstanceId
from highwater.partition.quota.meter import NodeMeters, ShareOfNode, Usage
from highwater.rpc.grpcio_guard import ProvingChannel, client_credentials
from highwater.rpc.inner import Inner
from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.logging import Logger

TICK_MS: Final = 1_000
BACKOFF_S: Final = (0.2, 2.0)
"""The first and the longest pause before the stream is opened again."""

UNLIMITED: Final = -1
_UNUSED: Final = Usage()


class QuotaStub(Protocol):
    """A QuotaServiceStub, or one in process."""

    def Report(  # noqa: N802 - the RPC's name.
        self, reports: AsyncIterator[pb.UsageReport], /
    ) -> AsyncIterable[pb.Allocations]:
        """Sends reports, receives shares."""
        ...


class QuotaReporter:
    """Runs as long as the node (`run`)."""

    def __init__(
        self,
        stub: QuotaStub,
        meters: NodeMeters,
        *,
        identity: Callable[[], tuple[int, int]],
        leaders: Callable[[], Mapping[InstanceId, tuple[int, int]]],
        log: Logger,
        tick_ms: int = TICK_MS,
    ) -> None:
        """`identity` gives node id and node epoch; `leaders` gives, per instance, how many
        partitions this node leads and how many bytes they store.
        """
        self._stub = stub
        self._meters = meters
        self._identity = identity
        self._leaders = leaders
        self._log = log
        self._tick_ms = tick_ms
        self._generation = 0

    async def run(self) -> None:
        """Reports until cancelled."""
        first_s, greatest_s = BACKOFF_S
        pause_s = first_s
        while True:
            # Generations order answers within one stream only. The next stream may reach another
            # service with a slower clock, whose answers would be ignored for that long.
            self._generation = 0
            try:
                async for allocations in self._stub.Report(self._reports()):
                    self._take(allocations)
            except grpc.RpcError as error:
                self._log.info("quota_stream_broken", error=_text(error))
            if self._generation:
                pause_s = first_s
            await asyncio.sleep(pause_s)
            pause_s = min(greatest_s, pause_s * 2)

    async def _reports(self) -> AsyncIterator[pb.UsageReport]:
        """One report at once, because the answer has the shares, then one per tick."""
        while True:
            yield self._report()
            await asyncio.sleep(self._tick_ms / 1000)

    def _report(self) -> pb.UsageReport:
        node_id, node_epoch = self._identity()
        used = self._meters.take_usage()
        leaders = self._leaders()
        report = pb.UsageReport(node_id=node_id, node_epoch=node_epoch, tick_ms=self._tick_ms)
        for instance in sorted({*used, *leaders}):
            usage = used.get(instance, _UNUSED)
            partitions, stored = leaders.get(instance, (0, 0))
            report.instances.add(
                instance=instance,
                produced_bytes=usage.produced,
                consumed_bytes=usage.consumed,
                held_produce_bytes=usage.held_produce,
                held_consume_bytes=usage.held_consume,
                leader_partitions=partitions,
                stored_bytes=stored,
            )
        return report

    def _take(self, allocations: pb.Allocations) -> None:
        if allocations.generation < self._generation:
            return  # A newer answer came first.
        self._generation = allocations.generation
        self._meters.take(
            [_share(one) for one in allocations.allocations], allocations.expires_in_ms
        )


class QuotaServiceLink:
    """A channel to the quota service, for a process of its own. Belongs to the running loop.

    It is opened anew when certificates have changed. Satisfies `QuotaStub`.
    """

    def __init__(self, address: str, inner: Inner | None = None) -> None:
        """`inner`: what the service is shown and has to show; nothing without it."""
        self._address = address
        self._inner = inner or Inner()
        self._generation = self._inner.generation
        self._channel = self._open()

    async def Report(  # noqa: N802 - the RPC's name.
        self, reports: AsyncIterator[pb.UsageReport], /
    ) -> AsyncIterator[pb.Allocations]:
        """See `QuotaStub`. Its only caller has one stream at a time."""
        if self._inner.generation != self._generation:
            self._generation = self._inner.generation
            await self._channel.close(None)
            self._channel = self._open()
        channel: object = self._channel
        if self._inner.secret is not None:
            channel = ProvingChannel(channel, lambda: self._inner.proof)
        stub: QuotaStub = rpc.QuotaServiceStub(channel)  # type: ignore[no-untyped-call]
        async for allocations in stub.Report(reports):
            yield allocations

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close(None)

    def _open(self) -> grpc.aio.Channel:
        return open_channel(self._address, credentials=client_credentials(self._inner.client_tls))


def _share(one: pb.Allocation) -> ShareOfNode:
    return ShareOfNode(
        instance=InstanceId(one.instance),
        produce=_rate(one.produce_bytes_per_second),
        consume=_rate(one.consume_bytes_per_second),
        produce_floor=max(0, one.floor_produce_bytes_per_second),
        consume_floor=max(0, one.floor_consume_bytes_per_second),
    )


def _rate(rate: int) -> float | None:
    return None if rate == UNLIMITED else float(rate)


def _text(error: grpc.RpcError) -> str:
    details = getattr(error, "details", None)
    return str(details() if details is not None else error)
