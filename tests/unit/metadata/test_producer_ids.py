import asyncio

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.metadata import producer_ids
from highwater.metadata.producer_ids import ProducerIds, ReadyProducerIds
from highwater.model.errors import UnreachableError
from highwater.runtime.tasks import TaskOwner
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


class Ready:
    """Ids that are ready, from the controller of a fake backend."""

    def __init__(self) -> None:
        self.controller = FakeBackend().controller
        self.failures: list[tuple[str, BaseException]] = []
        self.tasks = TaskOwner(lambda *failure: self.failures.append(failure))
        self.warnings: list[str] = []
        self.ids = ReadyProducerIds(self.controller, self.tasks, self)

    def warning(self, _event: str, *, error: str) -> None:
        self.warnings.append(error)

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_ready_ids_are_there_before_they_are_asked_for():
    ready = Ready()
    ready.ids.prepare()
    ready.ids.prepare()
    await ready.settle()
    assert len(ready.controller.requests) == 1
    taken = []
    for _ in range(3 * ready.controller.block):
        taken.append(ready.ids.take())
        await ready.settle()
    assert taken == list(range(7_000, 7_000 + len(taken)))
    assert await ready.tasks.close(timeout_s=5)
    assert ready.failures == []


async def test_without_a_block_there_is_no_id_for_a_moment():
    ready = Ready()
    assert ready.ids.take() is None
    await ready.settle()
    assert ready.ids.take() == 7_000


async def test_a_block_is_asked_for_until_there_is_one(monkeypatch):
    monkeypatch.setattr(producer_ids, "RETRY_S", 0.0)
    ready = Ready()
    ready.controller.raises = UnreachableError("no controller")
    assert ready.ids.take() is None
    await ready.settle()
    ready.controller.raises = None
    ready.controller.errors["producer ids"] = (ErrorCode.STALE_BROKER_EPOCH, "")
    await ready.settle()
    assert ready.ids.take() is None
    ready.controller.errors.clear()
    await ready.settle()
    assert ready.ids.take() is not None
    assert ready.failures == []


async def test_a_controller_that_is_away_for_long_is_one_line_in_the_log(monkeypatch):
    monkeypatch.setattr(producer_ids, "RETRY_S", 0.0)
    ready = Ready()
    ready.controller.raises = UnreachableError("no controller")
    ready.ids.prepare()
    for _ in range(10):
        await ready.settle()
    assert len(ready.controller.requests) > 5
    assert ready.warnings == ["no controller"]
    ready.controller.raises = None
    await ready.settle()
    assert ready.ids.take() == 7_000


async def test_after_a_bug_the_next_caller_asks_again():
    ready = Ready()
    ready.controller.raises = ZeroDivisionError()
    ready.ids.prepare()
    await ready.settle()
    assert len(ready.failures) == 1
    ready.controller.raises = None
    assert ready.ids.take() is None
    await ready.settle()
    assert ready.ids.take() == 7_000
