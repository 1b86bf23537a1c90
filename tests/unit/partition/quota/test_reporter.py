import asyncio
from contextlib import asynccontextmanager, suppress

import grpc
import pytest

from highwater.api.quota.v1 import quota_service_pb2 as pb
from highwater.api.quota.v1 import quota_service_pb2_grpc as rpc
from highwater.metadata.status import InProcessRpcError
from highwater.model.ids import InstanceId
from highwater.partition.quota import reporter as module
from highwater.partition.quota.meter import NodeMeters
from highwater.partition.quota.reporter import QuotaReporter, QuotaServiceLink
from highwater.rpc.grpcio_guard import GuardInterceptor
from highwater.rpc.inner import Inner
from highwater.runtime.grpc_server import GrpcServer
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import silent_logger

ONE = InstanceId("one")


class Service:
    """A fake quota service: it keeps reports, and the test sends answers."""

    def __init__(self):
        self.reports = asyncio.Queue()
        self.answers = asyncio.Queue()
        self.streams = 0

    async def Report(self, requests):
        self.streams += 1
        async for report in requests:
            self.reports.put_nowait(report)
            answer = await self.answers.get()
            if isinstance(answer, Exception):
                raise answer
            if answer is None:
                return
            yield answer


def allocation(generation, produce, consume=-1, instance=ONE):
    return pb.Allocations(
        generation=generation,
        expires_in_ms=3000,
        allocations=[
            pb.Allocation(
                instance=instance,
                produce_bytes_per_second=produce,
                consume_bytes_per_second=consume,
                floor_produce_bytes_per_second=max(0, produce),
            )
        ],
    )


@asynccontextmanager
async def reporting(service, monkeypatch, tick_ms=20, *others):
    monkeypatch.setattr(module, "BACKOFF_S", (0.01, 0.02))
    meters = NodeMeters(lambda: 0)
    reporter = QuotaReporter(
        [service, *others],
        meters,
        identity=lambda: (7, 3),
        leaders=lambda: {ONE: (2, 500)},
        log=silent_logger(),
        tick_ms=tick_ms,
    )
    task = asyncio.create_task(reporter.run())
    try:
        async with asyncio.timeout(10):
            yield meters if tick_ms == 20 else reporter
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


async def test_usage_goes_up_and_shares_come_down(monkeypatch):
    service = Service()
    async with reporting(service, monkeypatch) as meters:
        first = await service.reports.get()
        assert (first.node_id, first.node_epoch) == (7, 3)
        assert 20 <= first.tick_ms < 1_000
        assert first.instances == [
            pb.InstanceUsage(instance=ONE, leader_partitions=2, stored_bytes=500)
        ]
        service.answers.put_nowait(allocation(1, 1000))
        await until(lambda: ONE in meters.by_instance)
        meters.by_instance[ONE].produced(150)

        second = await service.reports.get()
        assert second.instances[0].produced_bytes == 100
        assert second.instances[0].held_produce_bytes == 150
        assert second.instances[0].produce_bytes_per_second == 1000
        assert not second.instances[0].HasField("consume_bytes_per_second")
        assert second.applied_generation == 1
        service.answers.put_nowait(pb.Allocations(generation=2, expires_in_ms=3000))
        await until(lambda: not meters.by_instance)


async def test_broken_stream_is_opened_again_and_shares_stay(monkeypatch):
    service = Service()
    async with reporting(service, monkeypatch) as meters:
        service.answers.put_nowait(allocation(5, 1000))
        await until(lambda: ONE in meters.by_instance)
        for broken in (InProcessRpcError(grpc.StatusCode.UNAVAILABLE, "gone", ()), None):
            streams = service.streams
            service.answers.put_nowait(broken)
            await until(lambda before=streams: service.streams > before)
            assert ONE in meters.by_instance


async def test_shares_of_a_service_with_a_slower_clock_are_applied(monkeypatch):
    """Generations begin with the service's wall clock."""
    service = Service()
    async with reporting(service, monkeypatch) as meters:
        service.answers.put_nowait(allocation(5, 1000))
        await until(lambda: ONE in meters.by_instance)
        service.answers.put_nowait(None)
        service.answers.put_nowait(allocation(2, 1000, instance=InstanceId("other")))
        await until(lambda: set(meters.by_instance) == {"other"})


async def test_older_answers_are_ignored(monkeypatch):
    service = Service()
    async with reporting(service, monkeypatch) as meters:
        service.answers.put_nowait(allocation(5, 1000))
        await until(lambda: ONE in meters.by_instance)
        service.answers.put_nowait(allocation(4, 1, instance=InstanceId("late")))
        service.answers.put_nowait(allocation(6, 1000))
        await until(service.answers.empty)
        await asyncio.sleep(0.05)
        assert set(meters.by_instance) == {ONE}


async def test_the_storage_limit_comes_down_and_goes_up(monkeypatch):
    service = Service()
    async with reporting(service, monkeypatch) as meters:
        answer = allocation(1, -1)
        one = answer.allocations[0]
        one.storage_limit_bytes, one.storage_left_bytes, one.storage_exhausted = 900, 0, True
        await service.reports.get()
        service.answers.put_nowait(answer)
        await until(lambda: ONE in meters.by_instance)
        assert "900 of 900 bytes" in meters.by_instance[ONE].refuses_produce()
        second = await service.reports.get()
        assert second.instances[0].storage_exhausted


async def test_it_reports_soon_when_asked_and_says_how_long_ago_the_last_was(monkeypatch):
    service = Service()
    async with reporting(service, monkeypatch, tick_ms=60_000) as reporter:
        await service.reports.get()
        service.answers.put_nowait(allocation(1, 1000))
        await reporter.informed.wait()
        reporter.report_soon()
        assert 0 < (await service.reports.get()).tick_ms < 10_000


async def test_the_next_service_is_asked_when_the_first_is_gone_and_the_first_again_later(
    monkeypatch,
):
    monkeypatch.setattr(module, "RETURN_S", 0.2)
    first, second = Service(), Service()
    first.answers.put_nowait(InProcessRpcError(grpc.StatusCode.UNAVAILABLE, "gone", ()))
    async with reporting(first, monkeypatch, 20, second) as meters:
        for generation in range(3):
            second.answers.put_nowait(allocation(generation + 1, 1000))
        await until(lambda: ONE in meters.by_instance)
        assert (first.streams, second.streams) == (1, 1)
        first.answers.put_nowait(allocation(1, 1000, instance=InstanceId("first")))
        for generation in range(100):
            second.answers.put_nowait(allocation(generation + 4, 1000))
        await until(lambda: set(meters.by_instance) == {"first"})
        assert first.streams == 2


async def test_a_silent_service_is_left_for_the_next(monkeypatch):
    first, second = Service(), Service()  # The first takes reports and does not answer.
    second.answers.put_nowait(allocation(1, 1000))
    async with reporting(first, monkeypatch, 20, second) as meters:
        await until(lambda: ONE in meters.by_instance)


class Renewed(Inner):
    """Whose certificates have changed as often as the test says."""

    times = 0

    @property
    def generation(self):
        return self.times


async def test_the_link_shows_the_secret_and_connects_anew_with_other_certificates(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s" * 20)
    inner = Renewed(InnerSettings(secret_file=secret))
    service, peers = Service(), []

    class Servicer(rpc.QuotaServiceServicer):
        async def Report(self, requests, context):
            peers.append(context.peer())
            async for answer in service.Report(requests):
                yield answer

    server = GrpcServer("127.0.0.1", 0, interceptors=(GuardInterceptor(inner.guard()),))
    server.register(lambda s: rpc.add_QuotaServiceServicer_to_server(Servicer(), s))
    await server.start()

    async def one_report():
        yield pb.UsageReport(node_id=7)
        await asyncio.sleep(60)

    async def ask(link):
        service.answers.put_nowait(allocation(1, 5))
        async for allocations in link.Report(one_report()):
            return allocations.generation
        raise AssertionError("no answer")

    link, stranger = QuotaServiceLink(server.address, inner), QuotaServiceLink(server.address)
    try:
        assert await ask(link) == await ask(link) == 1
        inner.times = 1
        assert await ask(link) == 1
        assert len(peers) == 3
        assert len(set(peers)) == 2, "another connection after the change"
        with pytest.raises(grpc.RpcError) as caught:
            await ask(stranger)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    finally:
        await link.close()
        await stranger.close()
        await server.stop(drain_s=0)
