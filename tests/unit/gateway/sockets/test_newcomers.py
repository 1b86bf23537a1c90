"""From accept to a connection: headers, limits and handshakes in this order."""

import asyncio
import socket
from dataclasses import replace

import pytest
import uvloop

from highwater.gateway.quota.core.connection_limits import ConnectionLimits
from highwater.gateway.sockets.door import Reason
from highwater.gateway.sockets.tls import ClientAuth, TlsContext
from highwater.model.cluster import ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, NodeId
from highwater.model.instances import InstanceState
from highwater.runtime.proxy_protocol import LOCAL_HEADER, tcp_header
from tests.support.certificates import make_certificate
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.core.session_world import PRODUCE, request
from tests.unit.gateway.sockets.listener_world import World, closed
from tests.unit.gateway.sockets.test_tls import files, trusting

HEADER = tcp_header(("203.0.113.5", 40000), ("192.0.2.1", 9092))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


async def secure(world, certificate, header, shown=None):
    """A client of TLS whose balancer has sent a header."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(header)
    await writer.start_tls(trusting(certificate, shown), server_hostname="localhost")
    return reader, writer


async def header_and_handshake(world, certificate, **limits):
    tls = TlsContext(
        files(certificate, client_ca_file=str(certificate[0]), client_auth=ClientAuth.REQUIRED)
    )
    await world.listen(proxy_protocol=True, tls=tls)
    world.listener.newcomers.turns.limits = ConnectionLimits(**limits)
    async with asyncio.timeout(20):
        reader, writer = await secure(world, certificate, HEADER, certificate)
        writer.write(request(PRODUCE, 1) + request(PRODUCE, 2, 200_000))
        assert await reader.readexactly(4) == b"1;2;"
    (connection,) = world.listener.connections
    assert connection.client.peer.host == "203.0.113.5"
    assert connection.client.requester.principal.name == "CN=localhost"
    writer.transport.abort()


@pytest.mark.parametrize("limits", [{}, {"connections": 5, "of_address": 5}])
async def test_a_handshake_follows_the_header(world, certificate, limits):
    await header_and_handshake(world, certificate, **limits)


@pytest.mark.parametrize("limits", [{}, {"connections": 5}])
def test_so_it_does_on_the_loop_that_gateways_use(certificate, limits):
    async def scenario():
        world = World()
        await header_and_handshake(world, certificate, **limits)
        await world.listener.close(drain_s=0)
        for threads in world.threads:
            threads.stop()

    uvloop.run(scenario())


async def test_who_the_header_names_is_asked_about_before_the_handshake(world, certificate):
    await world.listen(proxy_protocol=True, tls=TlsContext(files(certificate)))
    door = world.listener.doors.of(DEFAULT_INSTANCE)
    door.follow(InstanceState(instance=DEFAULT_INSTANCE, allowed_networks=("10.0.0.0/8",)))
    with pytest.raises((ConnectionError, EOFError)):
        await secure(world, certificate, HEADER)
    assert door.refused[Reason.NETWORK] == 1
    assert len(world.listener.newcomers) == 0


async def test_a_balancer_s_check_that_ends_in_a_handshake_is_no_failure(world, certificate):
    await world.listen(proxy_protocol=True, tls=TlsContext(files(certificate)))
    newcomers = world.listener.newcomers
    for header in (LOCAL_HEADER, HEADER):
        async with world.client() as (reader, writer):
            writer.write(header + b"no handshake")
            while await reader.read(100):
                pass
    await until(lambda: newcomers.failed_handshakes == 1)
    assert len(newcomers) == 0


async def test_a_balancer_s_checks_do_not_wait(world):
    await world.listen(proxy_protocol=True)
    newcomers = world.listener.newcomers
    newcomers.turns.limits = ConnectionLimits(connections=1)
    async with world.client() as (first, writer), world.client() as (check, checker):
        writer.write(HEADER + request(PRODUCE, 1))
        assert await first.readexactly(2) == b"1;"
        checker.write(LOCAL_HEADER + request(PRODUCE, 2))
        assert await check.readexactly(2) == b"2;"
        async with world.client() as (_, third):
            third.write(HEADER + request(PRODUCE, 3))
            await until(lambda: newcomers.arrivals.waiting)


async def test_with_tls_a_connection_waits_before_its_handshake(world, certificate):
    await world.listen(tls=TlsContext(files(certificate)))
    newcomers = world.listener.newcomers
    newcomers.turns.limits = ConnectionLimits(connections_by={"default": 1})
    async with world.client() as (_, first):
        await until(lambda: len(newcomers.handshakes) == 1)
        second = asyncio.create_task(secure(world, certificate, b""))
        await until(lambda: newcomers.arrivals.waiting)
        assert (newcomers.by("default"), newcomers.of("127.0.0.1")) == (1, 1)
        first.transport.abort()
        async with asyncio.timeout(10):
            reader, writer = await second
            writer.write(request(PRODUCE, 1))
            assert await reader.readexactly(2) == b"1;"
        writer.transport.abort()
    await until(lambda: not len(newcomers))


async def test_those_that_wait_count_for_the_gateway_s_own_limit(world):
    await world.listen(connections_max=2)
    newcomers = world.listener.newcomers
    newcomers.turns.limits = ConnectionLimits(connections=1)
    async with world.client(), world.client():
        await until(lambda: newcomers.arrivals.waiting)
        async with world.client() as (late, _):
            assert await closed(late)
    assert newcomers.refused == 1


async def test_limits_are_those_of_the_image_for_all_brokers_and_for_the_node_here(world):
    await world.listen()
    newcomers = world.listener.newcomers
    empty = ClusterImage(revision=1, cluster_id="c")
    image = replace(
        empty,
        cluster_configs={"max.connections": "10", "message.max.bytes": "5"},
        node_configs={NodeId(2): {"max.connections": "20"}},
    )
    newcomers.follow(image, NO_NODE)
    assert newcomers.turns.limits == ConnectionLimits(connections=10)
    newcomers.follow(image, NodeId(2))
    assert newcomers.turns.limits == ConnectionLimits(connections=20)
    newcomers.follow(empty, NodeId(2))
    assert not newcomers.arrivals.limited


@pytest.mark.parametrize("secured", [False, True])
def test_the_kernel_can_be_asked_to_watch_a_client(certificate, secured):
    async def scenario():
        world = World()
        await world.listen(tls=TlsContext(files(certificate)) if secured else None)
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
            if secured:
                await writer.start_tls(trusting(certificate), server_hostname="localhost")
            writer.write(request(PRODUCE, 1))
            assert await reader.readexactly(2) == b"1;"
        (connection,) = world.listener.connections
        sock = connection._transport.get_extra_info("socket")
        assert not sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        connection.close_when_silent()
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        writer.transport.abort()
        await world.listener.close(drain_s=0)
        for threads in world.threads:
            threads.stop()

    uvloop.run(scenario())
