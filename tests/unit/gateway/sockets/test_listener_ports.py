"""Ports of a listener's blocks: which can be opened, and how they are given back."""

import asyncio
import socket
from contextlib import ExitStack

import pytest
import uvloop

from highwater.gateway.sockets import listener as module
from highwater.model.errors import BindError, ConfigError, PortInUseError
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.listener_names import DEFAULT_LISTENER
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.core.session_world import FETCH, PRODUCE, request
from tests.unit.gateway.sockets.listener_world import World, closed


async def test_the_error_names_a_port_that_is_in_use(world):
    await world.listen()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=str(port)):
            await world.listener.open_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 7, port)
    assert world.listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, None)
    assert not world.listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 7)


@pytest.mark.parametrize("accept", [True, False])
async def test_the_error_names_both_listeners_whose_blocks_overlap(world, accept):
    await world.listen()
    port = await world.listener.open_port("internal", DEFAULT_INSTANCE, None, 0, accept=accept)
    wanted = (
        f"internal and default overlap: port {port} is the bootstrap port of internal and node 7"
    )
    with pytest.raises(ConfigError, match=wanted):
        await world.listener.open_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 7, port)
    with pytest.raises(ConfigError, match="internal and everywhere overlap"):
        await world.listener.open_port("everywhere", DEFAULT_INSTANCE, None, port)
    elsewhere = await world.listener.open_port("elsewhere", DEFAULT_INSTANCE, 7, port)
    assert elsewhere == port, "another address may have the same block"


class LostRaces:
    """A loop on which another process listens on every port that a server has just bound."""

    def __init__(self, loop, rivals):
        self._loop = loop
        self._rivals = rivals

    async def create_server(self, *arguments, **options):
        server = await self._loop.create_server(*arguments, **options)
        rival = self._rivals.enter_context(socket.socket())
        rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rival.bind(server.sockets[0].getsockname())
        rival.listen()
        return server

    def __getattr__(self, name):
        return getattr(self._loop, name)


async def _lose_the_race_for_a_port():
    world = World()
    await world.listen()
    loop = asyncio.get_running_loop()
    try:
        with ExitStack() as rivals, pytest.MonkeyPatch.context() as patched:
            patched.setattr(module.asyncio, "get_running_loop", lambda: LostRaces(loop, rivals))
            with pytest.raises(PortInUseError):
                await world.listener.open_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 7, 0)
            assert not world.listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 7)
            reserved = DEFAULT_LISTENER, DEFAULT_INSTANCE, 8
            await world.listener.open_port(*reserved, 0, accept=False)
            with pytest.raises(PortInUseError):
                await world.listener.start_port(*reserved)
            assert not world.listener.has_port(*reserved)
        await world.listener.open_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 7, 0)
        world.listener.close_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 7)
        port = await world.listener.open_port(*reserved, 0, accept=False)
        for _ in range(2):  # Once more is harmless.
            await world.listener.start_port(*reserved)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
    finally:
        await world.listener.close(drain_s=0)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_port_that_another_process_takes_meanwhile_is_in_use(run):
    run(_lose_the_race_for_a_port())


async def test_ports_end_at_65535(world):
    await world.listen()
    with pytest.raises(BindError, match=r"127\.0\.0\.1:65536: ports end"):
        await world.listener.open_port("internal", DEFAULT_INSTANCE, 1, 65_536)


async def test_clients_of_a_port_that_is_given_back_go_when_no_write_is_under_way(world):
    await world.listen()
    port = await world.listener.open_port("internal", DEFAULT_INSTANCE, 7, 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with world.client() as (other, _):
        await until(lambda: len(world.listener.connections) == 2)
        world.listener.close_port("internal", DEFAULT_INSTANCE, 7)
        assert not world.listener.has_port("internal", DEFAULT_INSTANCE, 7)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        (connection,) = (c for c in world.listener.connections if c.client.peer.node == 7)
        world.handler.keep = True
        writer.write(request(PRODUCE, 1) + request(FETCH, 2))
        await until(lambda: len(world.handler.kept) == 2)
        assert world.listener.send_away(DEFAULT_LISTENER, DEFAULT_INSTANCE, 7), (
            "none by that listener"
        )
        assert not world.listener.send_away("internal", DEFAULT_INSTANCE, 7)
        assert not connection.closed
        fetch, produce = world.handler.kept.pop(), world.handler.kept.pop()
        connection.complete(produce, b"1;")
        assert not world.listener.send_away("internal", DEFAULT_INSTANCE, 7)
        assert not connection.closed, "its reply has not left"
        assert await reader.readexactly(2) == b"1;"
        assert not world.listener.send_away("internal", DEFAULT_INSTANCE, 7)
        assert await closed(reader)
        connection.complete_fetch(fetch, b"")
        await until(lambda: world.listener.send_away("internal", DEFAULT_INSTANCE, 7))
        assert not other.at_eof()
    writer.transport.abort()
