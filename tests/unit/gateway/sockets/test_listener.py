"""Real connections: which are accepted, which are closed, and how they end."""

import asyncio
import errno
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from highwater.gateway.sockets import listener as module
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.listener_names import DEFAULT_LISTENER
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.core.session_world import PRODUCE, request
from tests.unit.gateway.handlers.images import image_of
from tests.unit.gateway.sockets.listener_world import closed
from tests.unit.gateway.wires import open_descriptors


async def test_requests_are_answered_and_the_peer_is_known(world):
    await world.listen()
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1) + request(3, 2) + request(PRODUCE, 3))
        assert await reader.readexactly(6) == b"1;2;3;"
        peer = world.handler.peers[0]
        assert (peer.host, peer.instance) == ("127.0.0.1", DEFAULT_INSTANCE)
        assert peer.port == writer.get_extra_info("sockname")[1]
    await until(lambda: not world.listener.connections)


async def test_the_listener_that_a_client_came_by_is_known(world):
    await world.listen(proxy_protocol=True)
    default, world.port = (
        world.port,
        await world.listener.open_port("internal", DEFAULT_INSTANCE, 3, 0),
    )
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1))  # Without a PROXY header: that is the default listener's.
        assert await reader.readexactly(2) == b"1;"
    (peer,) = world.handler.peers
    assert (peer.listener, peer.node, peer.host) == ("internal", 3, "127.0.0.1")
    world.port = default
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1) * 9)
        assert await closed(reader), "no PROXY header"
    assert world.listener.has_port("internal", DEFAULT_INSTANCE, 3)
    assert not world.listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 3)


async def test_clients_of_a_listener_with_mechanisms_have_to_log_in(world):
    await world.listen(sasl_mechanisms=("PLAIN",))
    async with world.client():
        await until(lambda: world.gate.admitted == [("PLAIN",)])
    await until(lambda: world.gate.ended == 1)
    world.port = await world.listener.open_port("internal", DEFAULT_INSTANCE, None, 0)
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;"
    assert len(world.gate.admitted) == 1


async def test_all_connections_forget_their_shapes(world):
    await world.listen()
    async with world.client(), world.client():
        await until(lambda: len(world.listener.connections) == 2)
        for connection in world.listener.connections:
            connection.tail = connection.fetch_shape = object()
        world.listener.forget_shapes()
        for connection in world.listener.connections:
            assert (connection.tail, connection.fetch_shape) == (None, None)


async def test_a_connection_begins_with_the_present_image(world):
    await world.listen()
    found = []
    for revision in (7, 8):
        world.routing.apply(image_of(revision=revision))
        async with world.client():
            await until(lambda: world.listener.connections)
            [connection] = world.listener.connections
            found.append(connection.client.told_revision)
        await until(lambda: not world.listener.connections)
    assert found == [7, 8]


async def test_connections_above_the_limit_are_refused(world):
    await world.listen(connections_max=2)
    async with world.client() as (one, writer), world.client():
        await until(lambda: len(world.listener.connections) == 2)
        async with world.client() as (late, _):
            assert await closed(late)
        assert world.listener.newcomers.refused == 1
        writer.write(request(PRODUCE, 1))
        assert await one.readexactly(2) == b"1;"
    await until(lambda: not world.listener.connections)
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 2))
        assert await reader.readexactly(2) == b"2;"


async def test_a_silent_connection_is_closed_and_a_busy_one_is_not(world):
    await world.listen(idle_s_max=0.2)
    async with world.client() as (silent, _), world.client() as (busy, writer):
        ended = asyncio.create_task(closed(silent))
        for n in range(12):
            writer.write(request(PRODUCE, n % 10))
            await busy.readexactly(2)
            await asyncio.sleep(0.05)
        assert await ended
        assert {c.close_reason for c in world.listener.connections} == {""}


async def test_a_connection_with_a_request_under_way_is_not_idle(world):
    await world.listen(idle_s_max=0.1)
    world.handler.keep = True
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 5))
        await until(lambda: world.handler.kept)
        await asyncio.sleep(0.5)
        reply = world.handler.kept.pop()
        reply.session.complete(reply, b"5;")
        assert await reader.readexactly(2) == b"5;"


@pytest.mark.parametrize("begun", [request(PRODUCE, 1)[:9], (500_000).to_bytes(4, "big") + b"x"])
async def test_an_unfinished_frame_ends_the_connection(world, begun):
    await world.listen(frame_s_max=0.2)
    async with world.client() as (slow, writer), world.client() as (idle, other):
        writer.write(begun)
        assert await closed(slow)
        other.write(request(PRODUCE, 2))
        assert await idle.readexactly(2) == b"2;"
    await until(lambda: world.budget.used == 0)


async def test_an_unfinished_frame_behind_a_request_under_way_ends_it(world):
    await world.listen(frame_s_max=0.2)
    world.handler.keep = True
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1) + (500_000).to_bytes(4, "big") + b"x")
        assert await closed(reader)
    await until(lambda: world.budget.used == sum(r.request_bytes for r in world.handler.kept))


async def test_a_frame_that_the_gateway_does_not_read_does_not_count_as_unfinished(world):
    world.shared.in_flight_bytes_max = 10
    await world.listen(frame_s_max=0.1)
    world.handler.keep = True
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1) + request(PRODUCE, 2)[:9])
        await asyncio.sleep(0.4)
        reply = world.handler.kept.pop()
        world.handler.keep = False
        writer.write(request(PRODUCE, 2)[9:])
        reply.session.complete(reply, b"1;")
        assert await reader.readexactly(4) == b"1;2;"


async def test_a_client_that_is_throttled_is_not_idle(world):
    await world.listen(idle_s_max=0.1)
    async with world.client() as (reader, writer):
        await until(lambda: world.listener.connections)
        (connection,) = world.listener.connections
        connection.mute(600)
        writer.write(request(PRODUCE, 5))
        assert await reader.readexactly(2) == b"5;"
        ended = asyncio.create_task(closed(reader))
        await asyncio.sleep(0.1)
        assert not ended.done()
        assert await ended, "afterwards it is"
        assert connection.close_reason == "idle"


async def test_a_client_that_reads_no_replies_is_idle(world):
    await world.listen(idle_s_max=0.3)
    world.handler.keep = True
    world.budget.replies_max = 1 << 30
    async with world.client() as (reader, writer):
        reader._transport.pause_reading()
        writer.write(request(PRODUCE, 1))
        await until(lambda: world.handler.kept)
        reply = world.handler.kept.pop()
        reply.session.complete(reply, bytes(20 << 20))
        (connection,) = world.listener.connections
        await until(lambda: not connection.outstanding and not world.listener.connections)
        assert connection.close_reason == "idle"


async def unread(world, reader, writer, number, nbytes=20 << 20):
    """Send one large reply to a client that reads none of it; return the gateway's connection."""
    reader._transport.pause_reading()
    known = set(world.listener.connections)
    writer.write(request(PRODUCE, number))
    await until(lambda: world.handler.kept)
    reply = world.handler.kept.pop()
    reply.session.complete(reply, bytes(nbytes))
    await until(lambda: reply.session.behind)
    assert reply.session in known
    return reply.session


async def test_a_client_that_reads_nothing_is_closed_only_if_memory_is_scarce(world, monkeypatch):
    await world.listen()
    world.handler.keep = True
    world.budget.replies_max = 30 << 20
    async with world.client() as one, world.client() as other, world.client() as (reader, writer):
        await until(lambda: len(world.listener.connections) == 3)
        first = await unread(world, *one, 1)
        await asyncio.sleep(0.05 * 2 * module.UNREAD_SWEEPS_MAX)
        assert not first.closed, "there is room"
        second = await unread(world, *other, 2)
        await until(lambda: len(world.listener.connections) == 2)
        assert (first.closed, second.closed) == (True, False), "one was enough"
        assert "memory" in first.close_reason
        assert not world.budget.replies_scarce
        world.handler.keep = False
        writer.write(request(PRODUCE, 3))
        assert await reader.readexactly(2) == b"3;"
    await until(lambda: not world.listener.connections)
    assert world.budget.replies == 0


async def test_the_client_with_most_unread_bytes_is_closed_if_memory_stays_scarce(
    world, monkeypatch
):
    """Slow readers read something in each sweep, but other clients get no memory."""
    monkeypatch.setattr(module, "PROGRESS_BYTES_MIN", 0)
    await world.listen()
    world.handler.keep = True
    world.budget.replies_max = 20 << 20
    async with world.client() as one, world.client() as other, world.client() as third:
        await until(lambda: len(world.listener.connections) == 3)
        small = await unread(world, *one, 1, nbytes=12 << 20)
        await asyncio.sleep(0.05 * 2 * module.SCARCE_SWEEPS_MAX)
        assert not small.closed, "there is room"
        large = await unread(world, *other, 2, nbytes=24 << 20)
        await until(lambda: large.closed)
        assert "most of the memory" in large.close_reason
        await asyncio.sleep(0.05 * 2 * module.SCARCE_SWEEPS_MAX)
        assert not small.closed, "one was enough"
        reader, writer = third
        world.handler.keep = False
        writer.write(request(PRODUCE, 3))
        assert await reader.readexactly(2) == b"3;"
    await until(lambda: not world.listener.connections)
    assert world.budget.replies == 0


async def test_replies_behind_an_unfinished_one_close_the_client_if_memory_is_scarce(world):
    await world.listen()
    world.handler.keep = True
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1) + request(PRODUCE, 2))
        await until(lambda: len(world.handler.kept) == 2)
        late = world.handler.kept.pop()
        late.session.complete_fetch(late, bytes(1 << 20))
        assert world.budget.replies_scarce
        assert await closed(reader)
    assert world.budget.replies == 0


async def test_requests_sent_before_a_half_close_are_answered(world):
    await world.listen()
    world.handler.keep = True
    async with world.client() as (reader, writer):
        writer.write(request(3, 1))
        await until(lambda: world.handler.kept)
        writer.write(request(PRODUCE, 2) + request(PRODUCE, 3))
        (connection,) = world.listener.connections
        await until(lambda: connection.waits_to_produce)
        writer.write_eof()
        await asyncio.sleep(0.2)
        first = world.handler.kept.pop()
        first.session.complete(first, b"1;")
        await until(lambda: len(world.handler.kept) == 2)
        for number in (2, 3):
            reply = world.handler.kept.pop(0)
            reply.session.complete(reply, b"%d;" % number)
        async with asyncio.timeout(5):
            assert await reader.read() == b"1;2;3;"
    await until(lambda: not world.listener.connections)


async def test_close_waits_for_requests_under_way(world):
    await world.listen()
    world.handler.keep = True
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 5))
        await until(lambda: world.handler.kept)
        closing = asyncio.create_task(world.listener.close(drain_s=5))
        await asyncio.sleep(0.05)
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", world.port)
        reply = world.handler.kept.pop()
        reply.session.complete(reply, b"5;" * 500_000)
        assert await reader.readexactly(1_000_000) == b"5;" * 500_000
        await closing
        assert await closed(reader)
        assert not world.listener.connections


async def test_close_answers_what_has_come_and_is_not_read_yet(world):
    await world.listen()
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 5))
        assert await reader.readexactly(2) == b"5;"
        writer.write(request(PRODUCE, 6))  # In the socket, before the loop's next turn.
        await world.listener.close(drain_s=5)
        assert await reader.read() == b"6;"


async def test_close_does_not_keep_a_connection_for_the_requests_of_another_one(world):
    """Its client would send again meanwhile, and lose that."""
    await world.listen()
    async with world.client() as (idle, _), world.client() as (reader, writer):
        world.handler.keep = True
        writer.write(request(PRODUCE, 5))
        await until(lambda: world.handler.kept)
        closing = asyncio.create_task(world.listener.close(drain_s=5))
        async with asyncio.timeout(2):
            assert await closed(idle)
        assert not closing.done()
        reply = world.handler.kept.pop()
        reply.session.complete(reply, b"5;")
        assert await reader.readexactly(2) == b"5;"
        await closing


async def test_close_waits_no_longer_than_its_limit(world):
    await world.listen()
    world.handler.keep = True
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 5))
        await until(lambda: world.handler.kept)
        async with asyncio.timeout(1):
            await world.listener.close(drain_s=0.1)
        assert await closed(reader)


async def test_connections_release_everything_however_they_end(world):
    await world.listen()
    world.handler.keep = True
    before = open_descriptors()
    for n in range(30):
        async with world.client() as (_, writer):
            data = request(PRODUCE, n, 200_000)
            writer.write(data[: n * 7_000])
            await asyncio.sleep(0.002 * (n % 3))
    await until(lambda: not world.listener.connections)
    for reply in world.handler.kept:
        reply.session.complete(reply, b"late")
    world.handler.kept.clear()
    assert world.budget.used == 0
    await until(lambda: open_descriptors() <= before)


class FewDescriptors:
    """A listener in a child process that may have 60 descriptors (see few_descriptors.py)."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.gateway.sockets.few_descriptors"],
            cwd=Path(__file__).parents[4],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            assert self.process.wait(20) == 0
        finally:
            self.process.kill()
            self.process.stdout.close()

    def counted(self):
        self.process.stdin.write("now\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def connect(self):
        made = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        made.sendall(request(PRODUCE, 7))
        return made


def is_served(sock):
    """False if the connection was closed; if neither happens, the test fails (TimeoutError)."""
    try:
        return sock.recv(2) == b"7;"
    except ConnectionError:
        return False


@pytest.mark.timeout(60)
def test_without_descriptors_connections_are_closed_and_later_ones_are_served():
    with FewDescriptors() as child:
        opened = [child.connect() for _ in range(80)]
        served = [is_served(sock) for sock in opened]
        assert 5 <= sum(served) < 60
        assert served[0], "who was there first stays"
        time.sleep(0.3)  # Some sweeps, in which one descriptor is free or none.
        counted = child.counted()
        assert counted["shortages"] > 0
        assert counted["connections"] == sum(served)
        assert counted["events"] == ["out_of_descriptors"], "one line for all"
        for sock in opened:
            sock.close()
        deadline = time.monotonic() + 10
        while child.counted()["connections"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for _ in range(3):
            with child.connect() as sock:
                assert is_served(sock), "the listener lives on"


async def test_a_sweep_notices_that_no_descriptor_is_left(world, monkeypatch):
    def no_descriptor(_fd):
        raise OSError(errno.EMFILE, "Too many open files")

    await world.listen()
    assert world.listener.descriptor_shortages == 0
    monkeypatch.setattr(module.os, "dup", no_descriptor)
    await until(lambda: world.listener.descriptor_shortages >= 2)
    async with world.client() as (reader, _):
        assert await closed(reader)
    monkeypatch.undo()
    before = world.listener.descriptor_shortages
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;"
    assert world.listener.descriptor_shortages == before
