import asyncio

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from highwater.api.quota.v1 import quota_service_pb2 as pb
from highwater.api.quota.v1.quota_service_pb2_grpc import QuotaServiceStub
from highwater.quota.config import QuotaConfig
from highwater.quota.service import SERVICE_NAME, QuotaService
from highwater.runtime.clock import SystemClock
from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.logging import silent_logger
from tests.unit.quota.images import image, limited, topic
from tests.unit.quota.watch import FakeWatch

UNLIMITED = image([topic("t", [1, 1, 2])])
LIMITED = image([topic("t", [1, 1, 2])], limited(produce_bytes_per_second=900))
MOVED = image([topic("t", [2, 2, 2])], limited(produce_bytes_per_second=900), revision=2)


@pytest.fixture
async def started():
    watch = FakeWatch()
    service = QuotaService(
        QuotaConfig(port=0, tick_ms=50, drain_s=0, metrics={"port": 0}),
        clock=SystemClock(),
        watch=watch,
        registry=CollectorRegistry(),
        log=silent_logger(),
    )
    await service.start()
    channel = open_channel(service.grpc.address)
    yield service, watch, channel
    await channel.close()
    await service.stop()
    assert watch.subscribers == []


def report(node):
    return pb.UsageReport(node_id=node, node_epoch=1, tick_ms=50)


async def share(stream):
    answer = await stream.read()
    return answer.allocations[0].produce_bytes_per_second if answer.allocations else None


async def until(stream, expected):
    """On a busy machine the answer to a change and that of the tick after it may be one."""
    async with asyncio.timeout(10):
        while await share(stream) != expected:
            pass


async def test_shares_over_grpc_follow_the_leaders(started):
    _, watch, channel = started
    watch.publish(UNLIMITED)
    streams = {node: QuotaServiceStub(channel).Report() for node in (1, 2)}
    first, second = streams.values()
    for node, stream in streams.items():
        await stream.write(report(node))
        await until(stream, None)
    watch.publish(LIMITED)
    await until(first, 600)
    await until(second, 300)
    watch.publish(MOVED)
    await until(first, 0)
    # The tick after a change ends even for a node that does not report.
    await until(second, 900)
    for stream in streams.values():
        stream.cancel()


async def test_ready_and_serving_with_the_first_image(started):
    service, watch, channel = started
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service=SERVICE_NAME)
    assert not service.readiness.ready()
    assert (await stub.Check(request, timeout=5)).status == 2
    watch.publish(LIMITED)
    assert service.readiness.ready()
    async with asyncio.timeout(5):
        while (await stub.Check(request, timeout=5)).status != 1:
            await asyncio.sleep(0.01)


async def test_stops_with_and_without_a_server_and_unstarted():
    watch = FakeWatch(LIMITED)
    first, second = (
        QuotaService(
            QuotaConfig(port=0, drain_s=0),
            clock=SystemClock(),
            watch=watch,
            registry=CollectorRegistry(),
            log=silent_logger(),
            serve_grpc=serve,
        )
        for serve in (True, False)
    )
    await first.start()
    await second.start()
    await second.stop()
    await first.stop()
    assert not first.failed.done()
    never = QuotaService(
        QuotaConfig(port=0),
        clock=SystemClock(),
        watch=watch,
        registry=CollectorRegistry(),
        log=silent_logger(),
    )
    await never.stop()
