"""Connections of instances: whose they are, which are let in, and how their ports end."""

import asyncio
import time

import pytest

from highwater.gateway.sockets.door import Reason
from highwater.model.errors import ConfigError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.model.networks import Networks
from highwater.runtime.proxy_protocol import tcp_header
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.core.session_world import PRODUCE, request
from tests.unit.gateway.sockets.listener_world import closed

A = InstanceId("a")
HEADER = tcp_header(("203.0.113.5", 40000), ("192.0.2.1", 9092))


def allow(world, *networks, **limits):
    state = InstanceState(instance=A, allowed_networks=networks or None, **limits)
    world.listener.doors.follow({A: state})


async def listen(world, listener=DEFAULT_LISTENER, **settings):
    """The world's clients come by a port of the instance."""
    await world.listen(**settings)
    allow(world)
    world.port = await world.listener.open_port(listener, A, None, 0)


async def answered(reader, writer):
    writer.write(request(PRODUCE, 1))
    return await reader.readexactly(2) == b"1;"


async def test_a_connection_belongs_to_the_instance_of_its_port(world):
    await listen(world)
    async with world.client() as client:
        assert await answered(*client)
    (peer,) = world.handler.peers
    assert (peer.instance, peer.entrance) == (A, (DEFAULT_LISTENER, A))


async def test_who_is_not_allowed_is_closed_before_a_byte_is_read(world):
    await listen(world)
    allow(world, "10.0.0.0/8")
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1))
        assert await closed(reader)
    assert world.handler.peers == []
    assert world.listener.doors.of(A).refused[Reason.NETWORK] == 1
    allow(world, "127.0.0.1")
    async with world.client() as client:
        assert await answered(*client)


async def test_networks_of_ipv6(world):
    await listen(world, "ipv6")
    allow(world, "::/16")
    async with world.client("::1") as client:
        assert await answered(*client)
        allow(world, "127.0.0.0/8", "2001:db8::/32")
        assert await closed(client[0])
    async with world.client("::1") as (reader, _):
        assert await closed(reader)


async def test_a_new_list_closes_open_connections(world):
    await listen(world)
    async with world.client() as (reader, writer):
        assert await answered(reader, writer)
        allow(world, "10.0.0.0/8")
        assert await closed(reader)
    await until(lambda: not world.listener.connections)


async def test_the_address_in_a_proxy_header_counts(world):
    await listen(world, proxy_protocol=True)
    allow(world, "203.0.113.0/24")
    async with world.client() as (reader, writer):
        writer.write(HEADER)
        assert await answered(reader, writer)
    allow(world, "127.0.0.0/8")
    async with world.client() as (reader, writer):
        writer.write(HEADER)
        assert await closed(reader)


@pytest.mark.parametrize(("networks", "trusted"), [("127.0.0.0/8", True), ("10.0.0.0/8", False)])
async def test_only_a_proxy_from_its_networks_is_believed(world, networks, trusted):
    await world.listen(proxy_protocol=True, proxies=Networks((networks,)))
    async with world.client() as (reader, writer):
        writer.write(HEADER)
        if trusted:
            assert await answered(reader, writer)
        else:
            assert await closed(reader)
    assert world.listener.newcomers.refused == (not trusted)


async def test_only_so_many_connections_of_an_instance(world):
    await listen(world)
    allow(world, connections_max=1)
    async with world.client() as first:
        assert await answered(*first)
        async with world.client() as (reader, _):
            assert await closed(reader)
    await until(lambda: not world.listener.connections)
    async with world.client() as again:
        assert await answered(*again)
    assert world.listener.doors.of(A).refused[Reason.LIMIT] == 1


async def test_blocks_of_two_instances_do_not_overlap(world):
    await listen(world)
    with pytest.raises(
        ConfigError, match=rf"listeners default \(instance a\) .* port {world.port}"
    ):
        await world.listener.open_port(DEFAULT_LISTENER, InstanceId("b"), None, world.port)


async def test_a_block_that_ends_closes_its_ports_and_tells_who_came_by_them(world):
    await listen(world)
    node = await world.listener.open_port(DEFAULT_LISTENER, A, 1, 0)
    default = world.listener.connections
    async with world.client() as client:
        assert await answered(*client)
        world.port = await world.listener.open_port("internal", A, None, 0)
        async with world.client() as other:
            assert await answered(*other)
            assert len(default) == 2
            (inside,) = world.listener.close_block(DEFAULT_LISTENER, A)
            assert inside.client.peer.listener == DEFAULT_LISTENER
    for port in (node,):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
    assert world.listener.has_port("internal", A, None)
    assert world.listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, None)


async def test_a_drain_waits_for_requests_in_flight(world):
    await listen(world)
    world.handler.keep = True
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1))
        await until(lambda: world.handler.kept)
        inside = world.listener.close_block(DEFAULT_LISTENER, A)
        drain = asyncio.create_task(world.listener.drain(inside, 30, "it ends"))
        await asyncio.sleep(0.05)
        reply = world.handler.kept.pop()
        reply.session.complete(reply, b"1;")
        assert await reader.readexactly(2) == b"1;"
        assert await closed(reader)
        await drain


async def test_a_drain_ends_in_time(world):
    await listen(world)
    world.handler.keep = True
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1))
        await until(lambda: world.handler.kept)
        begun = time.monotonic()
        inside = world.listener.close_block(DEFAULT_LISTENER, A)
        await world.listener.drain(inside, 0.1, "it ends")
        assert await closed(reader)
        assert 0.1 <= time.monotonic() - begun < 5
    reply = world.handler.kept.pop()
    reply.session.complete(reply, b"")
