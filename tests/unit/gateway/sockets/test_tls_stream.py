"""Connections with TLS on real sockets: handshakes, input while threads work, and how they end."""

import asyncio
import contextlib
import os
import socket
import ssl

import pytest

from highwater.gateway.sockets import tls_stream as module
from highwater.gateway.sockets.door import Reason
from highwater.gateway.sockets.tls import TlsContext, TlsFiles
from highwater.gateway.sockets.tls_outbox import THREAD_BYTES_MIN
from highwater.gateway.sockets.tls_shared import SharedTls
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER
from tests.support.certificates import make_certificate
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.core.session_world import PRODUCE, request
from tests.unit.gateway.sockets.listener_world import closed
from tests.unit.gateway.sockets.tls_world import HeldThreads, TlsPeer
from tests.unit.gateway.wires import Range

METADATA = 3
PATIENCE_S = 30


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def tls(certificate):
    return TlsContext(TlsFiles(cert_file=str(certificate[0]), key_file=str(certificate[1])))


class Client:
    """The steps of a client with TLS, one by one."""

    def __init__(self, certificate, reader, writer):
        self.peer = TlsPeer(ssl.create_default_context(cafile=str(certificate[0])))
        self.reader, self.writer = reader, writer

    async def shake_hands(self, *, last=True):
        """`last`: the last message leaves at once, not with what follows."""
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.peer.ssl.do_handshake()
                if last:
                    self.write(self.peer.outgoing.read())
                return
            self.write(self.peer.outgoing.read())
            self.peer.incoming.write(await self.reader.read(1 << 16))

    def write(self, data):
        if data:
            self.writer.write(data)

    def send(self, data):
        self.write(self.peer.send(data))

    async def read(self, nbytes):
        """So many bytes, or all until the end."""
        got = self.peer.receive(b"")
        async with asyncio.timeout(PATIENCE_S):
            while len(got) < nbytes and not self.peer.ended:
                data = await self.reader.read(1 << 16)
                if not data:
                    break
                got += self.peer.receive(data)
        return got


@pytest.fixture
async def connect(world, certificate):
    async with contextlib.AsyncExitStack() as stack:

        async def connect(shaken=True):
            made = Client(certificate, *await stack.enter_async_context(world.client()))
            if shaken:
                await made.shake_hands()
            return made

        yield connect


def kept(world, body):
    """Answers the oldest request that waits."""
    reply = world.handler.kept.pop(0)
    reply.session.complete(reply, body)


def hold_records(world):
    """From now on the test plays the threads for records."""
    threads = HeldThreads()
    world.tls = SharedTls(
        threads=threads,
        handshakes=world.tls.handshakes,
        memory=world.tls.memory,
        buffer=world.tls.buffer,
    )
    return threads


async def test_requests_that_come_with_the_end_of_the_handshake(world, tls, connect):
    await world.listen(tls=tls)
    client = await connect(shaken=False)
    await client.shake_hands(last=False)
    client.send(request(PRODUCE, 1))
    assert await client.read(2) == b"1;"


async def test_what_comes_while_a_thread_encrypts_is_decrypted_afterwards(world, tls, connect):
    threads = hold_records(world)
    await world.listen(tls=tls)
    world.handler.keep = True
    client = await connect()
    client.send(request(PRODUCE, 1))
    await until(lambda: world.handler.kept)
    large = os.urandom(3 * THREAD_BYTES_MIN)
    kept(world, large)
    await until(lambda: threads.waiting)
    client.send(request(PRODUCE, 2, 200_000))
    client.send(request(PRODUCE, 3))
    await asyncio.sleep(0.05)
    assert world.handler.kept == [], "a thread has the SSL object"
    got = b""
    async with asyncio.timeout(PATIENCE_S):
        while len(got) < len(large) + 4:
            while threads.waiting:
                threads.work()
            while world.handler.kept:
                kept(world, b"x;")
            got += await client.read(1)
    assert got == large + b"x;x;"


async def test_a_large_request_is_decrypted_by_a_thread(world, tls, connect):
    threads = hold_records(world)
    await world.listen(tls=tls)
    client = await connect()
    client.send(request(PRODUCE, 1, 1_000_000))
    client.send(request(PRODUCE, 2))
    by_threads = 0
    async with asyncio.timeout(PATIENCE_S):
        while len(world.handler.peers) < 2:
            while threads.waiting:
                threads.work()
                by_threads += 1
            await asyncio.sleep(0.001)
    assert by_threads
    assert await client.read(4) == b"1;2;"


@pytest.mark.parametrize("says", ["close_notify", "end", "both"])
async def test_requests_sent_before_a_half_close_are_taken(world, tls, connect, says):
    await world.listen(tls=tls)
    world.handler.keep = True
    client = await connect()
    client.send(request(METADATA, 1))
    await until(lambda: world.handler.kept)
    client.send(request(PRODUCE, 2) + request(PRODUCE, 3))
    if says != "end":
        client.write(client.peer.say_goodbye())
    if says != "close_notify":
        client.writer.write_eof()
    (connection,) = world.listener.connections
    await until(lambda: connection.ended)
    kept(world, b"1;")
    await until(lambda: len(world.handler.kept) == 2)
    kept(world, b"2;")
    kept(world, b"3;")
    data = b""
    async with asyncio.timeout(PATIENCE_S):
        while part := await client.reader.read(1 << 16):
            data += part
    client.peer.incoming.write(data)
    assert client.peer.ssl.read(100) == b"1;"
    await until(lambda: not world.listener.connections)


async def test_a_half_close_while_a_thread_encrypts(world, tls, connect):
    threads = hold_records(world)
    await world.listen(tls=tls)
    world.handler.keep = True
    client = await connect()
    client.send(request(PRODUCE, 1))
    await until(lambda: world.handler.kept)
    kept(world, bytes(THREAD_BYTES_MIN))
    await until(lambda: threads.waiting)
    client.send(request(PRODUCE, 2))
    client.write(client.peer.say_goodbye())
    client.writer.write_eof()
    await asyncio.sleep(0.1)
    assert world.handler.kept == []
    threads.work()
    await until(lambda: world.handler.kept)
    await until(lambda: not world.listener.connections)


async def test_a_connection_that_dies_while_a_thread_encrypts(world, tls, connect, tmp_path):
    threads = hold_records(world)
    await world.listen(tls=tls)
    world.handler.keep = True
    client = await connect()
    client.send(request(PRODUCE, 1))
    await until(lambda: world.handler.kept)
    path = tmp_path / "segment"
    path.write_bytes(bytes(1 << 20))
    with path.open("rb") as file:
        large = Range(file.fileno(), 0, 1 << 20)
        kept(world, [b"head", large])
        await until(lambda: threads.waiting)
        raw = client.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.writer.transport.abort()
        await until(lambda: not world.listener.connections)
        assert not large.released, "the thread uses its descriptor"
        threads.work()
        assert large.released == 1
    assert world.budget.replies == 0


async def test_a_close_is_said(world, tls, connect):
    await world.listen(tls=tls)
    client = await connect()
    client.send(request(PRODUCE, 1))
    assert await client.read(2) == b"1;"
    (connection,) = world.listener.connections
    connection.close("enough")
    assert await client.read(1) == b""
    assert client.peer.ended, "by close_notify"


async def test_bytes_that_are_not_tls_end_the_connection(world, tls, connect):
    await world.listen(tls=tls)
    client = await connect()
    await until(lambda: world.listener.connections)
    (connection,) = world.listener.connections
    client.write(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(ssl.SSLError, match=r"(?i)bad.record.mac"):
        await client.read(1)  # It is told by an alert.
    await until(lambda: not world.listener.connections)
    assert "SSL" in connection.close_reason


class Log:
    def __init__(self):
        self.lines = []

    def __getattr__(self, _level):
        return lambda event, **values: self.lines.append((event, values))


async def test_handshakes_that_fail_are_counted_and_told(world, tls, connect):
    log = Log()
    await world.listen(tls=tls, log=log, connections_max=1)
    client = await connect(shaken=False)
    client.write(b"GET / HTTP/1.1\r\n\r\n")
    await until(lambda: world.listener.newcomers.failed_handshakes == 1)
    ((event, values),) = log.lines
    assert event == "handshake_failed"
    assert values["listener"] == DEFAULT_LISTENER
    assert "HTTP" in values["error"]
    silent = await connect(shaken=False)
    silent.writer.close()
    await asyncio.sleep(0.1)
    assert world.listener.newcomers.failed_handshakes == 1, "it wanted none"
    assert await (await connect()).read(0) == b"", "its place is free again"


async def test_a_handshake_that_takes_too_long(world, tls, connect, monkeypatch):
    monkeypatch.setattr(module, "HANDSHAKE_S", 0.1)
    await world.listen(tls=tls)
    client = await connect(shaken=False)
    assert await closed(client.reader)
    assert world.listener.newcomers.failed_handshakes == 1


async def test_who_is_not_allowed_gets_no_handshake(world, tls, connect):
    instance = InstanceId("a")
    await world.listen(tls=tls)
    state = InstanceState(instance=instance, allowed_networks=("10.0.0.0/8",))
    world.listener.doors.follow({instance: state})
    world.port = await world.listener.open_port(DEFAULT_LISTENER, instance, None, 0)
    client = await connect(shaken=False)
    with contextlib.suppress(ConnectionError):
        client.writer.write(b"x")
    assert await closed(client.reader)
    assert world.listener.doors.of(instance).refused[Reason.NETWORK] == 1
    assert world.listener.newcomers.failed_handshakes == 0


async def test_handshakes_keep_places_of_an_instance_s_connections(world, tls, connect):
    instance = InstanceId("a")
    await world.listen(tls=tls)
    state = InstanceState(instance=instance, connections_max=1)
    world.listener.doors.follow({instance: state})
    world.port = await world.listener.open_port(DEFAULT_LISTENER, instance, None, 0)
    door = world.listener.doors.of(instance)
    begun = await connect(shaken=False)
    await until(lambda: door.handshakes)
    above = await connect(shaken=False)
    assert await closed(above.reader), "it is not let shake hands first"
    assert door.refused[Reason.LIMIT] == 1
    begun.write(b"GET / HTTP/1.1\r\n\r\n")
    await until(lambda: world.listener.newcomers.failed_handshakes == 1)
    assert not door.handshakes
    await connect()
    await until(lambda: door.connections)
    assert not door.handshakes
    above = await connect(shaken=False)
    assert await closed(above.reader)
    assert door.refused[Reason.LIMIT] == 2


async def test_keys_that_change_while_requests_and_replies_go_on(world, tls, connect):
    await world.listen(tls=tls)
    client = await connect()
    for number in range(20):
        client.write(client.peer.update_keys())
        client.send(request(PRODUCE, number))
    expected = b"".join(b"%d;" % number for number in range(20))
    assert await client.read(len(expected)) == expected


async def test_a_connection_that_may_not_read_gets_nothing(world, tls, connect):
    await world.listen(tls=tls)
    client = await connect()
    await until(lambda: world.listener.connections)
    (connection,) = world.listener.connections
    connection.mute(200)
    client.send(request(PRODUCE, 1))
    client.send(request(PRODUCE, 2))
    await asyncio.sleep(0.05)
    assert world.handler.peers == []
    assert await client.read(4) == b"1;2;"
