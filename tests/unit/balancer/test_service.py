"""Clients of a balancer in front of fake gateways."""

import asyncio
import contextlib
import socket
import struct

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from highwater.balancer.config import BalancerConfig
from highwater.balancer.service import BalancerService
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.errors import PortInUseError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.rpc.inner import Inner
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import silent_logger
from highwater.runtime.proxy_protocol import ProxiedClient
from highwater.runtime.shared_secret import make_secret
from tests.support import instances
from tests.support.controller import started
from tests.unit.balancer.gateways import FakeGateway, free_block

PORTS = 3


class World:
    """Gateways on 127.0.0.2 and 127.0.0.3, the balancer on 127.0.0.1, all on the same ports."""

    def __init__(self):
        self.port = free_block(PORTS)
        self.ports = range(self.port, self.port + PORTS)
        self.gateways = [FakeGateway(f"127.0.0.{n}") for n in (2, 3)]
        self.registry = CollectorRegistry()
        self.balancer = None

    async def start(self, **settings):
        defaults = {
            "port": self.port,
            "ports": PORTS,
            "gateways": tuple(gateway.address for gateway in self.gateways),
            "check_s": 0.05,
        }
        self.balancer = BalancerService(
            BalancerConfig(**(defaults | settings)), registry=self.registry, log=silent_logger()
        )
        await self.balancer.start()

    @contextlib.asynccontextmanager
    async def client(self, offset=0):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port + offset)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def served_by(self, offset=0):
        """The gateway's name that a new client gets; empty if the connection was closed."""
        async with asyncio.timeout(5), self.client(offset) as (reader, _):
            try:
                return (await reader.readuntil(b":")).decode()[:-1]
            except (OSError, EOFError):
                return ""

    def metric(self, name):
        return self.registry.get_sample_value(f"highwater_balancer_{name}")


@pytest.fixture
async def world():
    made = World()
    for gateway in made.gateways:
        await gateway.serve(*made.ports)
    yield made
    if made.balancer is not None:
        await made.balancer.stop()
    for gateway in made.gateways:
        await gateway.stop()


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


async def test_every_port_leads_to_the_same_port_of_some_gateway(world):
    await world.start()
    assert world.balancer.readiness.ready()
    heard = [await world.served_by(offset) for offset in (0, 1, 2, 0, 1, 2)]
    assert set(heard) == {"127.0.0.2", "127.0.0.3"}
    assert world.metric("gateways_up") == 2


async def test_gateways_get_the_clients_address(world):
    await world.start()
    async with world.client() as (reader, writer):
        await reader.readuntil(b":")
        own = ProxiedClient(*writer.get_extra_info("sockname"))
    assert [client for gateway in world.gateways for client in gateway.clients] == [own]


async def test_bytes_arrive_whole_in_both_directions_and_so_does_the_end(world):
    await world.start()
    data = bytes(range(256)) * 160_000  # 40 MB, far more than all buffers on the way.
    async with asyncio.timeout(20), world.client() as (reader, writer):
        await reader.readuntil(b":")
        writer.write(data)
        writer.write_eof()
        await asyncio.sleep(0.2)  # Nothing is read, so all buffers fill up.
        held = [relay.client.transport.get_write_buffer_size() for relay in world.balancer.relays]
        assert max(held) < 1 << 20
        assert await reader.read(-1) == data
    await until(lambda: not world.balancer.relays)


async def test_a_gateway_that_dies_takes_no_more_clients(world):
    await world.start()
    await world.gateways[0].stop()
    assert [await world.served_by() for _ in range(4)] == ["127.0.0.3"] * 4, "at once, by retries"
    await until(lambda: world.balancer.pool.up == ["127.0.0.3"])
    await world.gateways[0].serve(*world.ports)
    await until(lambda: len(world.balancer.pool.up) == 2)
    assert {await world.served_by() for _ in range(2)} == {"127.0.0.2", "127.0.0.3"}


async def test_a_port_leads_to_the_gateway_that_has_it(world):
    for gateway in world.gateways:
        await gateway.stop()
    first, second = world.gateways
    others = [FakeGateway(f"127.0.0.{n}") for n in (4, 5, 6)]
    world.gateways += others
    await first.serve(world.port, world.port + 1)
    await second.serve(world.port, world.port + 2)
    for other in others:
        await other.serve(world.port)
    await world.start(check_s=60)
    for offset, gateway in ((1, first), (2, second)):
        assert [await world.served_by(offset) for _ in range(6)] == [gateway.address] * 6
    assert len({await world.served_by() for _ in range(5)}) == 5
    # The process that has the port ends, and another takes it over.
    await first.stop()
    await others[0].serve(world.port + 1)
    assert [await world.served_by(1) for _ in range(3)] == [others[0].address] * 3


async def test_a_port_that_no_gateway_has_is_refused(world):
    for gateway in world.gateways:
        await gateway.stop()
        await gateway.serve(world.port)
    await world.start()
    assert await world.served_by(2) == ""
    assert world.metric("refused_connections") == 1


async def test_clients_see_the_end_of_their_gateway(world):
    await world.start()
    async with world.client() as (reader, _):
        name = (await reader.readuntil(b":")).decode()[:-1]
        await next(one for one in world.gateways if one.address == name).stop()
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                assert await reader.read(1) == b""
    await until(lambda: not world.balancer.relays)


async def test_without_gateways_clients_are_closed_and_it_is_not_ready(world):
    for gateway in world.gateways:
        await gateway.stop()
    await world.start()
    assert not world.balancer.readiness.ready()
    assert await world.served_by() == ""
    assert world.metric("refused_connections") == 1
    assert not world.balancer.relays


async def test_a_port_that_no_gateway_has(world):
    await world.start(ports=PORTS, gateway_port=world.port)
    for gateway in world.gateways:
        await gateway.stop()
        await gateway.serve(world.port)
    assert await world.served_by(2) == ""
    assert await world.served_by(0) != ""
    assert len(world.balancer.pool.up) == 2, "a node's port says nothing of the gateway"


async def test_connections_above_the_limit_are_refused(world):
    await world.start(connections_max=1)
    async with world.client() as (reader, _):
        await reader.readuntil(b":")
        assert world.metric("connections") == 1
        assert await world.served_by() == ""
    await until(lambda: not world.balancer.relays)
    assert await world.served_by() != ""


async def test_silent_connections_end(world):
    await world.start(idle_s_max=0.5)
    async with asyncio.timeout(10), world.client() as (reader, _), world.client() as (busy, talk):
        await reader.readuntil(b":")
        await busy.readuntil(b":")
        for _ in range(12):
            talk.write(b"x")
            assert await busy.readexactly(1) == b"x"
            await asyncio.sleep(0.1)
        with contextlib.suppress(ConnectionError):
            assert await reader.read(1) == b""
        assert len(world.balancer.relays) == 1


async def test_without_the_header(world):
    for gateway in world.gateways:
        gateway.proxied = False
    await world.start(proxy_protocol=False)
    for gateway in world.gateways:
        world.balancer.pool.checked(gateway.address, healthy=True)
    assert await world.served_by() != ""
    assert world.gateways[0].clients or world.gateways[1].clients


async def test_stopping_ends_connections(world):
    await world.start()
    async with asyncio.timeout(5), world.client() as (reader, _):
        await reader.readuntil(b":")
        await world.balancer.stop()
        assert await reader.read(1) == b""
    assert refuses(world.port)
    world.balancer = None


def refuses(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) != 0


async def test_a_port_in_use(world):
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", world.port + 1):
        with pytest.raises(PortInUseError):
            await world.start()


def test_clients_that_reset_their_connections_end_nothing_else():
    async def scenario():
        world = World()
        for gateway in world.gateways:
            await gateway.serve(*world.ports)
        await world.start()
        for said in (b"", b"said and gone"):
            for _ in range(5):
                sock = socket.create_connection(("127.0.0.1", world.port))
                sock.sendall(said)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
                await asyncio.sleep(0.005)
        served = await world.served_by()
        failed = world.balancer.failed.done() and world.balancer.failed.exception()
        await world.balancer.stop()
        for gateway in world.gateways:
            await gateway.stop()
        return failed, served != ""

    assert uvloop.run(scenario()) == (False, True)


def test_relaying_on_the_balancers_own_event_loop():
    async def scenario():
        world = World()
        for gateway in world.gateways:
            await gateway.serve(*world.ports)
        await world.start()
        for number in range(20):
            async with asyncio.timeout(10), world.client(number % PORTS) as (reader, writer):
                writer.write(b"said at once")  # Before the balancer has connected to a gateway.
                if number % 2:
                    writer.write_eof()
                await reader.readuntil(b":")
                assert await reader.readexactly(12) == b"said at once"
        await world.balancer.stop()
        for gateway in world.gateways:
            await gateway.stop()
        return not world.balancer.relays

    assert uvloop.run(scenario())


@pytest.mark.parametrize("has_secret", [False, True], ids=["open", "secret"])
async def test_ports_of_instances_are_published_while_it_runs(world, tmp_path, has_secret):
    file = tmp_path / "secret"
    make_secret(file)
    inner = InnerSettings(secret_file=file) if has_secret else InnerSettings()
    controller = await started(serve_grpc=True, inner=inner)
    endpoints = ControllerEndpoints([controller.address], inner=Inner(inner))
    try:
        await world.start(controllers=(controller.address,), inner=inner)
        first = free_block(4)  # Of those that the balancer has not taken just now.
        block = InstanceListener(port=world.port + 1, advertised_port=first)
        tenant = InstanceState(instance=InstanceId("tenant"), listeners=(block,))
        client = ControllerClient(endpoints)
        await instances.create(client, tenant)
        await until(lambda: world.metric("instance_ports") == 1)  # There is no node.
        world.port = first
        assert await world.served_by() in {"127.0.0.2", "127.0.0.3"}
        await instances.delete(client, tenant)
        await until(lambda: world.metric("instance_ports") == 0)
        with pytest.raises(ConnectionRefusedError):
            await world.served_by()
    finally:
        await endpoints.close()
        await controller.stop()
