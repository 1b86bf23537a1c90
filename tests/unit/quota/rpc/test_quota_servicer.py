import asyncio

import grpc
import pytest
from prometheus_client import CollectorRegistry

from highwater.api.quota.v1 import quota_service_pb2 as pb
from highwater.quota.core.limits import Limits
from highwater.quota.core.policies.static import StaticPolicy
from highwater.quota.rpc.quota_servicer import SILENCE_TICKS_MAX, QuotaServicer
from highwater.quota.sharing.ledger import Ledger
from highwater.quota.sharing.metrics import QuotaMetrics
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.unit.quota.images import image, limited, topic

TICK_MS = 20


class Aborted(Exception):
    pass


class Context:
    aborted = None

    async def abort(self, *arguments):
        self.aborted = arguments
        raise Aborted


class Node:
    """The node's end of one stream."""

    def __init__(self, servicer, node_id=1, epoch=1):
        self.node_id, self.epoch = node_id, epoch
        self.context = Context()
        self._reports = asyncio.Queue()
        self._answers = servicer.Report(self._requests(), self.context)

    async def _requests(self):
        while (report := await self._reports.get()) is not None:
            yield report

    def send(self, **fields):
        report = {"node_id": self.node_id, "node_epoch": self.epoch, "tick_ms": TICK_MS}
        self._reports.put_nowait(pb.UsageReport(**(report | fields)))

    def end(self):
        self._reports.put_nowait(None)

    async def receive(self):
        return await asyncio.wait_for(anext(self._answers), 5)

    async def close(self):
        await self._answers.aclose()


class World:
    def __init__(self, *, informed=True):
        self.registry = CollectorRegistry()
        self.ledger = Ledger(StaticPolicy(), tick_ms=TICK_MS, wall_ms=0)
        self.servicer = QuotaServicer(
            self.ledger,
            QuotaMetrics(self.registry, self.ledger),
            SystemClock(),
            silent_logger(),
            tick_ms=TICK_MS,
        )
        if informed:
            self.ledger.set_limits(Limits(), 0)

    def limit(self, produce):
        limits = Limits.of(image([topic("t", [1])], limited(produce_bytes_per_second=produce)))
        self.ledger.set_limits(limits, SystemClock().monotonic_ms())
        self.servicer.notify()

    def metric(self, name, **labels):
        return self.registry.get_sample_value(f"highwater_quota_{name}", labels)


@pytest.fixture
def world():
    return World()


async def test_each_report_is_answered(world):
    world.limit(100)
    node = Node(world.servicer)
    for _ in range(3):
        node.send()
        answer = await node.receive()
        assert answer.allocations[0].produce_bytes_per_second == 100
    assert world.metric("reports_total") == 3
    assert world.metric("allocations_total") == 3
    assert world.metric("report_streams") == 1
    node.end()
    with pytest.raises(StopAsyncIteration):
        await node.receive()
    assert world.metric("report_streams") == 0
    assert world.ledger.nodes == ()


async def test_changes_are_pushed_without_a_report(world):
    node = Node(world.servicer)
    node.send()
    assert not (await node.receive()).allocations
    world.limit(50)
    assert (await node.receive()).allocations[0].produce_bytes_per_second == 50
    await node.close()


async def test_nothing_is_pushed_before_a_node_identifies_itself(world):
    node = Node(world.servicer)
    waiting = asyncio.gather(node.receive())
    await asyncio.sleep(0.01)
    world.limit(50)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    node.send()
    ((answer),) = await waiting
    assert answer.allocations[0].produce_bytes_per_second == 50
    await node.close()


async def test_nothing_is_sent_before_the_limits_are_known():
    """An unlisted instance would be unlimited, which is not known yet."""
    world = World(informed=False)
    node = Node(world.servicer)
    node.send()
    waiting = asyncio.gather(node.receive())
    await asyncio.sleep(0.01)
    assert world.ledger.nodes == (1,)
    assert not waiting.done()
    world.limit(50)
    ((answer),) = await waiting
    assert answer.allocations[0].produce_bytes_per_second == 50
    await node.close()


async def test_silent_streams_are_closed(world):
    node = Node(world.servicer)
    node.send()
    await node.receive()
    loop = asyncio.get_running_loop()
    before = loop.time()
    with pytest.raises(StopAsyncIteration):
        await node.receive()
    assert loop.time() - before >= 0.9 * SILENCE_TICKS_MAX * TICK_MS / 1000
    assert world.ledger.nodes == ()


async def test_a_node_whose_tick_is_longer_is_not_silent_between_two(world):
    node = Node(world.servicer)
    for _ in range(2):
        node.send(tick_ms=4 * TICK_MS)
        await node.receive()
        await asyncio.sleep(1.5 * SILENCE_TICKS_MAX * TICK_MS / 1000)
    assert world.ledger.nodes == (1,)
    await node.close()


async def test_impossible_reports_end_the_stream(world):
    node = Node(world.servicer)
    node.send(tick_ms=0)
    with pytest.raises(Aborted):
        await node.receive()
    code, _, trailing = node.context.aborted
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert trailing == (("highwater-reason", "INVALID_REQUEST"),)
    assert world.metric("reports_refused_total", reason="INVALID_REQUEST") == 1


async def test_older_incarnations_end_and_do_not_disturb_the_newer(world):
    new, old = Node(world.servicer, epoch=2), Node(world.servicer, epoch=1)
    new.send()
    await new.receive()
    old.send()
    with pytest.raises(Aborted):
        await old.receive()
    assert old.context.aborted[0] is grpc.StatusCode.FAILED_PRECONDITION
    assert world.ledger.nodes == (1,)
    await new.close()
