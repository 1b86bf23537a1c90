import asyncio

import pytest

from highwater.metadata.producer_ids import ProducerIds
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import UnreachableError
from tests.unit.gateway.handlers.fakes import FakeBackend


async def test_ids_come_from_blocks_without_gap_or_repeat():
    controller = FakeBackend().controller
    ids = ProducerIds()
    assert [await ids.take(controller) for _ in range(7)] == list(range(7_000, 7_007))
    assert len(controller.requests) == 3
    assert {request.node_id for request in controller.requests} == {-1}


async def test_callers_share_a_block_that_is_on_its_way():
    controller = FakeBackend().controller
    controller.hold = asyncio.Event()
    controller.block = 10
    ids = ProducerIds()
    callers = [asyncio.ensure_future(ids.take(controller)) for _ in range(10)]
    await asyncio.sleep(0)
    controller.hold.set()
    assert sorted(await asyncio.gather(*callers)) == list(range(7_000, 7_010))
    assert len(controller.requests) == 1


async def test_more_callers_than_a_block_has_ids():
    controller = FakeBackend().controller
    controller.block = 2
    ids = ProducerIds()
    taken = await asyncio.gather(*(ids.take(controller) for _ in range(9)))
    assert sorted(taken) == list(range(7_000, 7_009))


async def test_a_failure_reaches_all_waiting_callers_once():
    controller = FakeBackend().controller
    controller.hold = asyncio.Event()
    controller.raises = UnreachableError("no controller")
    ids = ProducerIds()
    callers = [asyncio.ensure_future(ids.take(controller)) for _ in range(3)]
    await asyncio.sleep(0)
    controller.hold.set()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [UnreachableError] * 3
    assert len(controller.requests) == 1
    controller.raises = None
    assert await ids.take(controller) == 7_000


async def test_a_refusal_is_no_id():
    controller = FakeBackend().controller
    controller.errors["producer ids"] = (ErrorCode.STALE_BROKER_EPOCH, "")
    assert await ProducerIds().take(controller) is None


async def test_the_first_caller_may_leave():
    controller = FakeBackend().controller
    controller.hold = asyncio.Event()
    ids = ProducerIds()
    first = asyncio.ensure_future(ids.take(controller))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(ids.take(controller))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    controller.hold.set()
    assert await second == 7_000
    with pytest.raises(asyncio.CancelledError):
        await first
