import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from highwater.api.quota.v1 import quota_service_pb2 as pb
from highwater.model.cluster import ClusterImage
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from highwater.partition.node import quotas as module
from highwater.partition.node.quotas import NodeQuotas
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner

SHOP = InstanceId("shop")


class Service:
    """A quota service that closes an instance, or says nothing."""

    def __init__(self, *, answers=True):
        self.reports = []
        self._answers = answers

    async def Report(self, requests):
        async for report in requests:
            self.reports.append(report)
            if self._answers:
                one = pb.Allocation(
                    instance=SHOP,
                    produce_bytes_per_second=-1,
                    consume_bytes_per_second=-1,
                    storage_exhausted=True,
                    storage_limit_bytes=7,
                    storage_left_bytes=0,
                )
                yield pb.Allocations(generation=1, allocations=[one], expires_in_ms=3000)


def image(**limits):
    state = InstanceState(instance=SHOP, **limits)
    return ClusterImage(revision=1, cluster_id="c", instances={SHOP: state})


def replicas():
    log = SimpleNamespace(extent=SimpleNamespace(size_bytes=30))
    leader = SimpleNamespace(log=log)
    return SimpleNamespace(leaders_by_instance=lambda: {SHOP: [leader, leader]})


async def start(quotas, tasks, stack, **limits):
    await quotas.start(
        identity=lambda: (1, 1),
        replicas=replicas(),
        image=image(**limits),
        tasks=tasks,
        stack=stack,
    )


@pytest.fixture
async def tasks():
    owner = TaskOwner(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    yield owner
    await owner.close(timeout_s=1)


@pytest.fixture
def quotas():
    return NodeQuotas("", lambda: 0, silent_logger())


async def test_a_node_of_limited_instances_knows_them_before_it_serves(quotas, tasks):
    service = Service()
    quotas.connect(service)
    async with AsyncExitStack() as stack:
        await start(quotas, tasks, stack, storage_bytes=7)
    assert quotas.meters.by_instance[SHOP].refuses_produce()
    (told,) = service.reports[0].instances
    assert (told.leader_partitions, told.stored_bytes) == (2, 60)


async def test_it_does_not_wait_for_a_service_that_is_silent(quotas, tasks, monkeypatch):
    monkeypatch.setattr(module, "FIRST_SHARES_TIMEOUT_S", 0.01)
    quotas.connect(Service(answers=False))
    async with AsyncExitStack() as stack:
        await start(quotas, tasks, stack, storage_bytes=7)
    assert not quotas.meters.by_instance


async def test_without_a_service_there_is_nothing_to_start(quotas, tasks):
    async with AsyncExitStack() as stack:
        await start(quotas, tasks, stack, storage_bytes=7)
    quotas.image_applied(3)
    assert not quotas.meters.by_instance


async def test_it_reports_soon_when_it_leads_more(quotas, tasks):
    service = Service()
    quotas.connect(service)
    async with AsyncExitStack() as stack, asyncio.timeout(0.9):  # Less than a tick.
        await start(quotas, tasks, stack, storage_bytes=7)
        quotas.image_applied(1)
        while len(service.reports) < 2:
            await asyncio.sleep(0.01)
