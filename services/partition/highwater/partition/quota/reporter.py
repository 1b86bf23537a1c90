"""The stream to the quota service: it sends usage once a tick and receives shares.

Without the service, the node's shares decay to their floors (see TokenBucket), storage stays open or
closed (see StorageGate), and a node that never got a limit serves without one: quotas protect
neighbours from each other, and must not stop anybody while their service is away.

Of several services the node takes the first of its list that answers, and the next one when that is
silent. A node that is not at the first one looks from time to time whether that is back.
"""

import asyncio
import math
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
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
SOON_S: Final = 0.02
"""Between two reports at least, when leaders change one after the other."""
TICK_MS_MAX: Final = 60_000
"""What the service takes."""
BACKOFF_S: Final = (0.2, 2.0)
"""The first and the longest pause before the stream is opened again."""

ANSWER_TICKS: Final = 3
"""Ticks without an answer until another service is asked: as long as the lease of a share."""
RETURN_S: Final = 30.0
"""Until a node that is not at the first service tries that again. It costs nothing but a stream."""

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
        stubs: Sequence[QuotaStub],
        meters: NodeMeters,
        *,
        identity: Callable[[], tuple[int, int]],
        leaders: Callable[[], Mapping[InstanceId, tuple[int, int]]],
        log: Logger,
        tick_ms: int = TICK_MS,
    ) -> None:
        """`stubs`: the first one is preferred. `identity` gives node id and node epoch; `leaders` gives, per instance, how many
        partitions this node leads and how many bytes they store.
        """
        self._stubs = stubs
        self._meters = meters
        self._identity = identity
        self._leaders = leaders
        self._log = log
        self._tick_ms = tick_ms
        self._generation = 0
        self._hurry = asyncio.Event()
        self._reported_s = 0.0
        self._leave_s = math.inf
        """When to end the present stream, on the loop's clock."""
        self.informed = asyncio.Event()
        """Set once shares have come."""

    async def run(self) -> None:
        """Reports until cancelled."""
        first_s, greatest_s = BACKOFF_S
        pause_s = first_s
        number = 0
        while True:
            # Generations order answers within one stream only. The next stream may reach another
            # service with a slower clock, whose answers would be ignored for that long.
            self._generation = 0
            now_s = asyncio.get_running_loop().time()
            self._leave_s = math.inf if number == 0 else now_s + RETURN_S
            try:
                await self._exchange(self._stubs[number])
            except TimeoutError:
                self._log.info("quota_service_silent", number=number)
            except grpc.RpcError as error:
                self._log.info("quota_stream_broken", number=number, error=_text(error))
            if self._generation:
                pause_s = first_s
            number = 0 if asyncio.get_running_loop().time() >= self._leave_s else number + 1
            if number == len(self._stubs):
                number = 0
                await asyncio.sleep(pause_s)
                pause_s = min(greatest_s, pause_s * 2)

    async def _exchange(self, stub: QuotaStub) -> None:
        """One stream, until it ends. Raises RpcError, and TimeoutError if no answer comes."""
        clock_s = asyncio.get_running_loop().time
        answer_s = ANSWER_TICKS * self._tick_ms / 1000
        async with asyncio.timeout(answer_s) as patience:
            async for allocations in stub.Report(self._reports()):
                patience.reschedule(clock_s() + answer_s)
                self._take(allocations)

    def report_soon(self) -> None:
        """Leaders have changed: what they store is needed to know who is at his storage limit."""
        self._hurry.set()

    async def _reports(self) -> AsyncIterator[pb.UsageReport]:
        """One report at once, because the answer has the shares, then one per tick or when asked."""
        self._reported_s = asyncio.get_running_loop().time() - self._tick_ms / 1000
        while True:
            self._hurry.clear()
            yield self._report()
            await asyncio.sleep(SOON_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0, self._tick_ms / 1000 - SOON_S)):
                    await self._hurry.wait()
            if asyncio.get_running_loop().time() >= self._leave_s:
                return  # The service then ends the stream.

    def _passed_ms(self) -> int:
        """Since the last report."""
        last_s, self._reported_s = self._reported_s, asyncio.get_running_loop().time()
        return min(TICK_MS_MAX, max(1, round((self._reported_s - last_s) * 1000)))

    def _report(self) -> pb.UsageReport:
        node_id, node_epoch = self._identity()
        used = self._meters.take_usage()
        leaders = self._leaders()
        report = pb.UsageReport(
            node_id=node_id,
            node_epoch=node_epoch,
            tick_ms=self._passed_ms(),
            applied_generation=self._generation,
        )
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
                produce_bytes_per_second=_to_rate(usage.produce_rate),
                consume_bytes_per_second=_to_rate(usage.consume_rate),
                storage_exhausted=usage.storage_exhausted,
            )
        return report

    def _take(self, allocations: pb.Allocations) -> None:
        if allocations.generation < self._generation:
            return  # A newer answer came first.
        self._generation = allocations.generation
        self._meters.take(
            [_share(one) for one in allocations.allocations], allocations.expires_in_ms
        )
        self.informed.set()


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
        storage_limit=one.storage_limit_bytes if one.HasField("storage_limit_bytes") else None,
        storage_left=one.storage_left_bytes if one.HasField("storage_left_bytes") else None,
        storage_exhausted=one.storage_exhausted,
    )


def _to_rate(rate: float | None) -> int | None:
    return None if rate is None else int(rate)


def _rate(rate: int) -> float | None:
    return None if rate == UNLIMITED else float(rate)


def _text(error: grpc.RpcError) -> str:
    details = getattr(error, "details", None)
    return str(details() if details is not None else error)
