"""Two gateways of one controller, and a client of both."""

import asyncio
import socket
from contextlib import AsyncExitStack

import pytest
from prometheus_client import CollectorRegistry

from highwater.api.controller.v1 import cluster_pb2
from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.up.ports import free_ports
from highwater.gateway.config import GatewayConfig, ListenerConfig
from highwater.gateway.handlers import metadata
from highwater.gateway.routing import departure
from highwater.gateway.routing.departure import LEAVE_S_MAX
from highwater.gateway.service import GatewayService
from highwater.gateway.sockets.port_block import RETRY_S
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from highwater.kafka.messages.sasl_handshake import SaslHandshakeRequest
from highwater.metadata.controller_client import ControllerClient
from highwater.model.errors import ConfigError
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.steps import finish
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.support.controller import endpoints_of, node, started, topic
from tests.support.wire import RawConnection, only
from tests.unit.gateway.clients.partition_node import until


class Gateways:
    """Two gateways and two fake nodes; topic `orders` is on both nodes."""

    async def start(self, stack: AsyncExitStack, count: int = 2) -> None:
        controller = await started(
            serve_grpc=True, session_timeout_ms=60_000, heartbeat_interval_ms=50
        )
        stack.push_async_callback(controller.stop)
        self.controller, self.stack = controller, stack
        endpoints = endpoints_of(controller)
        stack.push_async_callback(endpoints.close)
        client = self.client = ControllerClient(endpoints)
        self.nodes = {n: await node(client, n).join() for n in (1, 2)}
        created = await client.create_topics(
            pb.CreateTopicsRequest(
                instance=DEFAULT_INSTANCE, topics=[topic("orders", factor=2)], timeout_ms=5_000
            )
        )
        assert created.results[0].error.error_code == 0
        self.both = [await self.gateway() for _ in range(count)]

    async def gateway(self, **settings):
        """One more, of one port unless the settings say otherwise."""
        stack = self.stack
        endpoints = endpoints_of(self.controller)
        stack.push_async_callback(endpoints.close)
        made = GatewayService(
            GatewayConfig(**{"port": 0, "single_port": True, "drain_s": 0.1} | settings),
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


class Lines:
    """A log of errors."""

    def __init__(self) -> None:
        self.errors = []

    def error(self, event, *, error):
        self.errors.append((event, error))


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


def _brokers(host, port):
    with RawConnection(host, port) as connection:
        return [(b.node_id, b.host, b.port) for b in connection.ask(MetadataRequest([]), 9).brokers]


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
async def no_gateway():
    """The same without the gateways; the test adds its own."""
    async with AsyncExitStack() as stack:
        made = Gateways()
        await made.start(stack, count=0)
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


async def test_each_listener_has_its_block_and_its_addresses(no_gateway):
    first = free_ports("127.0.0.1", 6)
    inside = ListenerConfig(host="127.0.0.1", port=first + 3, advertised_host="inside")
    gateway = await no_gateway.gateway(
        host="127.0.0.2",
        port=first,
        single_port=False,
        advertised_port=19092,
        listeners={"Internal": inside},
    )
    await until(lambda: len(gateway.routing.image.node_gateways) == 2)
    assert gateway.port == first
    told = [(n, "127.0.0.2", 19092 + n) for n in (1, 2)]
    for port in range(first, first + 3):
        assert await asyncio.to_thread(_brokers, "127.0.0.2", port) == told
    told = [(n, "inside", first + 3 + n) for n in (1, 2)]
    for port in range(first + 3, first + 6):
        assert await asyncio.to_thread(_brokers, "127.0.0.1", port) == told


async def test_a_broker_of_one_port_has_one_on_each_listener(no_gateway):
    inside = free_ports("127.0.0.1", 1)
    gateway = await no_gateway.gateway(listeners={"internal": ListenerConfig(port=inside)})
    await until(lambda: len(gateway.routing.image.node_gateways) == 2)
    for port in (gateway.port, inside):
        told = [(n, "127.0.0.1", port) for n in (1, 2)]
        assert await asyncio.to_thread(_brokers, "127.0.0.1", port) == told


async def test_a_start_fails_if_blocks_overlap_and_the_error_names_both(no_gateway):
    first = free_ports("127.0.0.1", 6)
    inside = ListenerConfig(host="127.0.0.1", port=first + 1)
    wanted = f"internal and default overlap: port {first + 1} is the bootstrap port of internal"
    with pytest.raises(ConfigError, match=wanted):
        await no_gateway.gateway(port=first, single_port=False, listeners={"internal": inside})


async def test_a_port_in_use_keeps_no_other_port_from_opening(no_gateway):
    first = free_ports("127.0.0.1", 10)
    inside = ListenerConfig(host="127.0.0.1", port=first + 4)
    gateway = await no_gateway.gateway(
        port=first, single_port=False, listeners={"internal": inside}
    )
    lines = gateway._log = Lines()
    with socket.create_server(("127.0.0.1", first + 3)):
        await node(no_gateway.client, 3).join()
        told = [(n, "127.0.0.1", first + 4 + n) for n in (1, 2, 3)]
        await until(lambda: _is_live(gateway, 3))
        assert await asyncio.to_thread(_brokers, "127.0.0.1", first + 7) == told
        await node(no_gateway.client, 4).join()
        await until(lambda: 4 in gateway.routing.image.node_gateways)
        await until(lambda: lines.errors)
    in_use = f"address 127.0.0.1:{first + 3} is already in use by another process"
    overlap = f"port {first + 4} is the bootstrap port of internal and node 4 of default"
    await node(no_gateway.client, 5).join()
    await until(lambda: any(overlap in text for _, text in lines.errors))
    assert lines.errors.count(("port_not_opened", in_use)) == 1, "not one for each image or try"


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


async def test_a_gateway_that_stops_is_named_to_nobody_before_its_ports_close(gateways):
    """Otherwise clients would be sent back to it, until its session ends."""
    first, second = gateways.both
    named = first.routing.image.node_gateways
    leaving, other = (first, second) if first.port in _named_ports(first) else (second, first)
    assert named, "the nodes have gateways"
    at_close = []
    end_heartbeats = leaving._heartbeats.stop

    async def close():
        at_close.append((_named_ports(leaving), _named_ports(other)))
        await end_heartbeats()

    leaving._heartbeats.stop = close
    async with asyncio.timeout(LEAVE_S_MAX):
        await leaving.stop()
    assert at_close == [({other.port}, {other.port})]


async def test_a_gateway_that_stops_takes_no_further_ports(no_gateway):
    """Its block ends where the other one's begins, as long as the image has both."""
    first = free_ports("127.0.0.1", 4)
    await no_gateway.gateway(port=first + 2, single_port=False)
    leaving = await no_gateway.gateway(port=first, single_port=False)
    name = leaving._gateway_state().gateway_id
    await until(lambda: name in leaving.routing.image.gateways)
    lines = leaving._log = Lines()
    end_heartbeats = leaving._heartbeats.stop

    async def knows():
        assert name not in leaving.routing.image.gateways
        await asyncio.sleep(2 * RETRY_S)
        await end_heartbeats()

    leaving._heartbeats.stop = knows
    await leaving.stop()
    assert lines.errors == []


async def test_a_gateway_stops_without_the_controller(gateways, monkeypatch):
    monkeypatch.setattr(departure, "LEAVE_S_MAX", 0.2)
    leaving = gateways.both[0]
    await gateways.controller.stop()
    async with asyncio.timeout(8):
        await leaving.stop()
    assert not leaving.connections


def _is_live(gateway, number):
    """Whether it knows that the node has a gateway and is not fenced: between the two Metadata leaves it out."""
    image = gateway.routing.image
    return number in image.node_gateways and not image.nodes[number].fenced


def _named_ports(gateway):
    """Of the gateways that it would name for nodes."""
    image = gateway.routing.image
    return {image.gateways[each].port for each in image.node_gateways.values()}


async def test_an_unknown_user_has_the_same_salt_at_every_gateway_and_after_a_restart(no_gateway):
    """The salts of users are the same everywhere: another one would tell that a user is not there."""

    def asked(port):
        with RawConnection("127.0.0.1", port) as connection:
            handshake = SaslHandshakeRequest(mechanism="SCRAM-SHA-512")
            assert connection.ask(handshake, 1).error_code == 0
            first = SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=nonce")
            answer = bytes(connection.ask(first, 2).auth_bytes)
            return answer.split(b",", 1)[1]

    def challenge(gateway):
        return asyncio.to_thread(asked, gateway.port)

    def fail(port):
        with RawConnection("127.0.0.1", port) as connection:
            connection.ask(SaslHandshakeRequest(mechanism="NONSENSE"), 1)

    settings = {"sasl_mechanisms": ("SCRAM-SHA-512",)}
    first, second = [await no_gateway.gateway(**settings) for _ in range(2)]
    salt = await challenge(first)
    assert salt == await challenge(second)
    await asyncio.to_thread(fail, first.port)
    assert first._listener.doors.of(DEFAULT_INSTANCE).failed_logins == 1
    await first.stop()
    assert salt == await challenge(await no_gateway.gateway(**settings))


async def test_shapes_are_forgotten_when_an_instance_is_closed(no_gateway):
    gateway = await no_gateway.gateway(authorizer="acl")
    client = no_gateway.client
    with RawConnection("127.0.0.1", gateway.port):
        await until(lambda: gateway.connections)
        (session,) = gateway._listener.connections
        for is_open in (True, False):
            session.tail = session.fetch_shape = object()
            state = cluster_pb2.InstanceState(instance=DEFAULT_INSTANCE, open_if_no_acl=is_open)
            changed = await client.set_instance(pb.SetInstanceRequest(instance=state))
            assert changed.error.error_code == 0
            await until(lambda: session.tail is None and session.fetch_shape is None)
