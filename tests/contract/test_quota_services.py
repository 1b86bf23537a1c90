"""A node and two real quota services over gRPC: the first one dies and comes back."""

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from highwater.partition.node.quotas import NodeQuotas
from highwater.partition.quota import reporter
from highwater.quota.config import QuotaConfig
from highwater.quota.service import QuotaService
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner
from tests.unit.quota.images import image, limited, topic
from tests.unit.quota.watch import FakeWatch

LIMITS = image([topic("t", [1, 2])], limited(produce_bytes_per_second=1_000, storage_bytes=100))


async def start_service(port=0):
    service = QuotaService(
        QuotaConfig(port=port, tick_ms=50, drain_s=0),
        clock=SystemClock(),
        watch=FakeWatch(LIMITS),
        registry=CollectorRegistry(),
        log=silent_logger(),
    )
    await service.start()
    return service


@pytest.fixture
async def tasks():
    owner = TaskOwner(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    yield owner
    await owner.close(timeout_s=1)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_node_goes_to_the_next_service_and_back_with_its_share(tasks, monkeypatch):
    monkeypatch.setattr(reporter, "RETURN_S", 1.0)
    first, second = await start_service(), await start_service()
    addresses = f"{first.grpc.address}, {second.grpc.address}"
    log = SimpleNamespace(extent=SimpleNamespace(size_bytes=100))
    leaders = {"default": [SimpleNamespace(log=log)]}
    quotas = NodeQuotas(addresses, SystemClock().monotonic_ms, silent_logger())
    async with AsyncExitStack() as stack:
        await quotas.start(
            identity=lambda: (1, 1),
            replicas=SimpleNamespace(leaders_by_instance=lambda: leaders),
            groups=SimpleNamespace(count_groups=lambda _: 0, count_group_shards=lambda: 50),
            image=LIMITS,
            tasks=tasks,
            stack=stack,
        )
        assert first.ledger.nodes == (1,)
        meter = quotas.meters.by_instance["default"]
        port = int(first.grpc.address.rpartition(":")[2])
        await first.stop()
        await until(lambda: second.ledger.nodes == (1,))
        assert quotas.meters.by_instance["default"] is meter  # It was limited all the time.
        again = await start_service(port)
        await until(lambda: again.ledger.nodes == (1,) and not second.ledger.nodes)
        await tasks.close(timeout_s=1)
    await again.stop()
    await second.stop()
