"""Two gateways of one controller, and a client of both."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from prometheus_client import CollectorRegistry

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.config import GatewayConfig
from highwater.gateway.handlers import metadata
from highwater.gateway.service import GatewayService
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.metadata.controller_client import ControllerClient
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.steps import finish
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.support.controller import endpoints_of, node, started, topic
from tests.support.wire import RawConnection, only
from tests.unit.gateway.clients.partition_node import until


class Gateways:
    """Two gateways and two fake nodes; topic `orders` is on both nodes."""

    async def start(self, stack: AsyncExitStack) -> None:
        controller = await started(
            serve_grpc=True, session_timeout_ms=60_000, heartbeat_interval_ms=50
        )
        stack.push_async_callback(controller.stop)
        endpoints = endpoints_of(controller)
        stack.push_async_callback(endpoints.close)
        client = ControllerClient(endpoints)
        self.nodes = {n: await node(client, n).join() for n in (1, 2)}
        created = await client.create_topics(
            pb.CreateTopicsRequest(
                instance=DEFAULT_INSTANCE, topics=[topic("orders", factor=2)], timeout_ms=5_000
            )
        )
        assert created.results[0].error.error_code == 0
        self.both = [await self._gateway(controller, stack) for _ in range(2)]

    async def _gateway(self, controller, stack):
        endpoints = endpoints_of(controller)
        stack.push_async_callback(endpoints.close)
        made = GatewayService(
            GatewayConfig(port=0, single_port=True, drain_s=0.1),
            clock=SystemClock(),
            endpoints=endpoints,
            registry=CollectorRegistry(),
            log=silent_logger(),
        )
        stack.push_async_callback(made.stop)
        await made.start()
        return made

    async def move_leader(self) -> None:
        """The leading node asks to stop, so the other one leads in the next epoch."""
        image = self.both[0].routing.image
        leader = image.topic("orders").partitions[0].leader
        await self.nodes[leader].beat(wants_shutdown=True)


class HeldWatch:
    """Holds back what the controller sends to a gateway's watch."""

    def __init__(self, gateway) -> None:
        self._watch = gateway.watch
        self._take = gateway.watch._take
        self._changes = []
        gateway.watch._take = self._hold

    def _hold(self, change):
        self._changes.append(change)
        yield

    def release(self) -> None:
        self._watch._take = self._take
        for change in self._changes:
            finish(self._take(change))


def _ask(port):
    request = MetadataRequest([MetadataRequestMetadataRequestTopic(name="orders")])
    with RawConnection("127.0.0.1", port) as connection:
        return only(only(connection.ask(request, 9).topics).partitions).leader_epoch


def epoch(gateway):
    """The leader epoch in the gateway's Metadata."""
    return asyncio.create_task(asyncio.to_thread(_ask, gateway.port))


@pytest.fixture
async def gateways():
    async with AsyncExitStack() as stack:
        made = Gateways()
        await made.start(stack)
        yield made


@pytest.fixture
async def late(gateways):
    """A second gateway that does not know the leader that the first one shows."""
    first, second = gateways.both
    before = await epoch(first)
    assert await epoch(second) == before
    held = HeldWatch(second)
    await gateways.move_leader()
    await until(lambda: first.routing.image.topic("orders").partitions[0].leader_epoch > before)
    assert await epoch(first) == before + 1
    await until(lambda: second.routing.newest_revision >= first.routing.image.revision)
    return before, held


async def test_metadata_does_not_go_back_whichever_gateway_answers(gateways, late):
    before, held = late
    asked = epoch(gateways.both[1])
    await asyncio.sleep(0.2)
    assert not asked.done(), "it knows by its heartbeats that its image is late"
    held.release()
    assert await asked == before + 1


async def test_a_gateway_whose_watch_stalls_still_answers(gateways, late, monkeypatch):
    """Clients ignore older epochs (KIP-320); without an answer they would know nothing."""
    before, _ = late
    monkeypatch.setattr(metadata, "CATCH_UP_MS_MAX", 200)
    async with asyncio.timeout(5):
        assert await epoch(gateways.both[1]) == before


async def test_what_is_held_for_new_leaders_is_waited_for_but_not_for_ever(gateways, monkeypatch):
    class Held:
        nbytes = 1

        def expire(self, now_ms):
            """Nothing is late."""

    gateway, held = gateways.both[0], Held()
    monkeypatch.setattr(gateway, "held", held)
    revision = gateway.routing.image.revision
    following = asyncio.create_task(gateway.follow_leaders(revision, 5))
    await asyncio.sleep(0.05)
    assert not following.done()
    held.nbytes = 0
    async with asyncio.timeout(1):
        await following
        await gateway.follow_leaders(revision + 1000, 0.05)
        held.nbytes = 1
        await gateway.follow_leaders(revision, 0.05)
