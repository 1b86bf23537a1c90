"""Controllers on an etcd that nobody else compacts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from highwater.controller.service import ControllerService, open_store
from highwater.controller.store.port import CompactedError, MetadataStore, StoreUnavailableError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from tests.support.controller import controller_config
from tests.support.etcd import VERSIONS, EtcdMemberProcess, etcd_missing, etcd_server

pytestmark = [pytest.mark.etcd, pytest.mark.slow]

COMPACT_AFTER_MS = 300
"""Shorter than settings allow."""
WAIT_S = 30.0


@pytest.fixture(params=list(VERSIONS))
def etcd_alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EtcdMemberProcess]:
    """A server of this test alone, which kills it."""
    if why := etcd_missing(request.param):
        pytest.skip(why)
    with etcd_server(tmp_path, version=request.param) as made:
        yield made


def controller(etcd: EtcdMemberProcess, name: str) -> ControllerService:
    config = controller_config(
        driver="etcd",
        controller_id=name,
        lease_ttl_ms=20_000,
        etcd={"endpoints": (etcd.endpoint,)},
    )
    group = config.etcd.model_copy(update={"compact_after_ms": COMPACT_AFTER_MS})
    return ControllerService(config.model_copy(update={"etcd": group}))


@pytest.fixture
async def pair(etcd_alone: EtcdMemberProcess) -> AsyncIterator[tuple[ControllerService, ...]]:
    """The active one and a standby."""
    async with contextlib.AsyncExitStack() as stack:
        one, two = controller(etcd_alone, "one"), controller(etcd_alone, "two")
        for service in (one, two):
            await service.start()
            stack.push_async_callback(service.stop)
            await until(lambda: bool(one.active))
        await until(lambda: two._active_address() == one.address)
        yield one, two


@pytest.fixture
async def history(etcd_alone: EtcdMemberProcess) -> AsyncIterator[MetadataStore]:
    made = open_store(
        controller_config(
            driver="etcd", controller_id="reader", etcd={"endpoints": (etcd_alone.endpoint,)}
        )
    )
    await made.start()
    yield made
    await made.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.05)


async def add_instance(service: ControllerService, name: str) -> int:
    assert service.active is not None
    _, revision = await service.active.instances.create(InstanceState(instance=InstanceId(name)))
    return revision


async def until_forgotten(store: MetadataStore, revision: int) -> None:
    """Waits until the revision is compacted."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await anext(store.watch("", revision))
            except CompactedError:
                return
            await asyncio.sleep(0.1)


@pytest.mark.timeout(180)
async def test_compaction_does_not_disturb_controllers(
    etcd_alone: EtcdMemberProcess,
    pair: tuple[ControllerService, ControllerService],
    history: MetadataStore,
) -> None:
    one, two = pair
    first = await add_instance(one, "a")
    last = await add_instance(one, "b")
    assert one.active is not None
    epoch = one.active.image.controller_epoch
    await until_forgotten(history, first)
    await one.active.allocate_producer_ids()
    # Both watch keys that changed long ago, and resume from compacted revisions.
    await until_forgotten(history, last)
    await asyncio.to_thread(etcd_alone.kill)
    etcd_alone.start()
    await add_instance_soon(one, "c")
    assert one.active.image.controller_epoch == epoch, "the same term"
    await one.stop()
    await until(lambda: bool(two.active))
    assert two.active is not None
    assert two.active.image.controller_epoch > epoch
    assert {"a", "b", "c"} <= set(two.active.image.instances)
    await add_instance(two, "d")


async def add_instance_soon(service: ControllerService, name: str) -> None:
    """Once etcd is back."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(StoreUnavailableError):
                await add_instance(service, name)
                return
            await asyncio.sleep(0.2)
