"""Behind a balancer: the PROXY header comes first, whole, in time, and exactly once."""

import asyncio

import pytest
import uvloop

from highwater.gateway.sockets import preface as module
from highwater.runtime.proxy_protocol import LOCAL_HEADER, ProxiedClient, tcp_header
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.core.session_world import PRODUCE, request
from tests.unit.gateway.sockets.listener_world import World, closed

HEADER = tcp_header(("203.0.113.5", 40000), ("192.0.2.1", 9092))


@pytest.fixture
async def world():
    made = World()
    await made.listen(proxy_protocol=True)
    yield made
    await made.listener.close(drain_s=0)


async def test_the_client_address_comes_from_the_header(world):
    async with world.client() as (reader, writer):
        writer.write(HEADER + request(PRODUCE, 1) + request(PRODUCE, 2))
        assert await reader.readexactly(4) == b"1;2;"
        writer.write(request(PRODUCE, 3))
        assert await reader.readexactly(2) == b"3;"
    assert {ProxiedClient(peer.host, peer.port) for peer in world.handler.peers} == {
        ProxiedClient("203.0.113.5", 40000)
    }


async def test_a_large_request_right_behind_the_header(world):
    async with world.client() as (reader, writer):
        writer.write(HEADER + request(PRODUCE, 1, size=200_000) + request(PRODUCE, 2))
        assert await reader.readexactly(4) == b"1;2;"


async def test_with_a_local_header_the_connections_own_address_counts(world):
    async with world.client() as (reader, writer):
        writer.write(LOCAL_HEADER + request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;"
        assert world.handler.peers[0].host == "127.0.0.1"
        assert world.handler.peers[0].port == writer.get_extra_info("sockname")[1]


@pytest.mark.parametrize("size", range(1, 24, 3))
async def test_a_header_that_arrives_in_pieces(world, size):
    data = HEADER + request(PRODUCE, 1)
    async with world.client() as (reader, writer):
        for start in range(0, len(data), size):
            writer.write(data[start : start + size])
            await asyncio.sleep(0.001)
        assert await reader.readexactly(2) == b"1;"
    assert world.handler.peers[0].host == "203.0.113.5"


@pytest.mark.parametrize("bad", [request(PRODUCE, 1), HEADER[:13] + b"\x41" + HEADER[14:]])
async def test_a_connection_with_a_bad_header_is_not_served(world, bad):
    async with world.client() as (reader, writer):
        writer.write(bad)
        assert await closed(reader)
    assert world.handler.peers == []
    assert world.listener.newcomers.refused == 1
    assert not world.listener.connections


async def test_a_connection_without_a_header_is_closed_after_a_while(world, monkeypatch):
    monkeypatch.setattr(module, "HEADER_S_MAX", 0.05)
    async with world.client() as (reader, writer):
        writer.write(HEADER[:20])
        assert await closed(reader)
    assert world.listener.newcomers.refused == 1


async def test_a_connection_that_ends_before_its_header_does_not_count_as_refused(world):
    async with world.client() as (_, writer):
        writer.write(HEADER[:5])
        await until(lambda: len(world.listener.newcomers.prefaces) == 1)
    await until(lambda: not world.listener.newcomers.prefaces)
    assert world.listener.newcomers.refused == 0


async def test_connections_without_a_header_count_for_the_limit():
    world = World()
    await world.listen(proxy_protocol=True, connections_max=2)
    async with world.client(), world.client() as (reader, writer):
        await until(lambda: len(world.listener.newcomers.prefaces) == 2)
        async with world.client() as (late, _):
            assert await closed(late)
        assert world.listener.newcomers.refused == 1
        writer.write(HEADER + request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;", "the limit holds those who came first"
        await world.listener.close(drain_s=0)
        assert await closed(reader)
    assert not world.listener.newcomers.prefaces


def test_the_header_on_the_loop_that_gateways_use():
    async def scenario():
        world = World()
        await world.listen(proxy_protocol=True)
        async with asyncio.timeout(20), world.client() as (reader, writer):
            for piece in (HEADER[:7], HEADER[7:20], HEADER[20:] + request(PRODUCE, 1, size=90_000)):
                writer.write(piece)
                await asyncio.sleep(0.01)
            writer.write(request(3, 2))
            assert await reader.readexactly(4) == b"1;2;"
        await world.listener.close(drain_s=0)
        return world.handler.peers[0].host

    assert uvloop.run(scenario()) == "203.0.113.5"
