import asyncio
import errno
import os
import ssl

import pytest

from highwater.rpc.addresses import TcpAddress
from highwater.rpc.listener import bind
from highwater.rpc.tls_listener import TlsListener
from tests.support.certificates import make_certificate, tls_contexts
from tests.support.rpc_demo import eventually


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


class Protocol(asyncio.Protocol):
    def __init__(self, events):
        self.events = events

    def connection_made(self, transport):
        self.events.append("made")
        transport.write(b"hello")

    def connection_lost(self, exc):
        self.events.append("lost")


class Scene:
    def __init__(self, certificate):
        served, self.trusting = tls_contexts(certificate)
        socket = bind(TcpAddress("127.0.0.1", 0))
        self.port = socket.getsockname()[1]
        self.full = False
        self.events, self.failures = [], []
        self.listener = TlsListener(
            socket,
            lambda: served,
            may_accept=lambda: not self.full,
            make_protocol=lambda: Protocol(self.events),
            on_failure=lambda name, error: self.failures.append((name, error)),
        )

    async def connect(self, tls=None):
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)


@pytest.fixture
async def scene(certificate):
    made = Scene(certificate)
    yield made
    await made.listener.close()


async def test_a_connection_is_made_after_its_handshake(scene):
    reader, writer = await scene.connect(scene.trusting)
    assert await reader.readexactly(5) == b"hello"
    assert scene.events == ["made"]
    assert scene.listener.handshakes == 0
    writer.close()
    await eventually(lambda: scene.events == ["made", "lost"])


async def test_a_handshake_counts_from_accept_until_it_fails(scene):
    _, silent = await scene.connect()
    _, wrong = await scene.connect()
    await eventually(lambda: scene.listener.handshakes == 2)
    wrong.write(b"GET / HTTP/1.1\r\n\r\n")
    await eventually(lambda: scene.listener.handshakes == 1)
    silent.close()
    await eventually(lambda: scene.listener.handshakes == 0)
    assert scene.events == []
    assert scene.failures == []
    wrong.close()


async def test_a_handshake_takes_no_longer_than_it_may(scene, monkeypatch):
    monkeypatch.setattr("highwater.rpc.tls_listener.HANDSHAKE_S", 0.05)
    reader, writer = await scene.connect()
    assert await asyncio.wait_for(reader.read(), 5) == b""
    await eventually(lambda: scene.listener.handshakes == 0)
    writer.close()


async def test_what_may_not_be_accepted_is_closed_at_once(scene):
    scene.full = True
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await scene.connect(scene.trusting)
    scene.full = False
    _, writer = await scene.connect(scene.trusting)
    writer.close()


async def test_handshakes_end_with_the_listener(scene):
    reader, writer = await scene.connect()
    await eventually(lambda: scene.listener.handshakes == 1)
    await scene.listener.close()
    assert await asyncio.wait_for(reader.read(), 5) == b""
    with pytest.raises(ConnectionRefusedError):
        await scene.connect()
    writer.close()


async def test_accepting_goes_on_after_an_error(scene, monkeypatch):
    monkeypatch.setattr("highwater.rpc.tls_listener.ACCEPT_AGAIN_S", 0.02)
    loop = asyncio.get_running_loop()
    accept, errors = loop.sock_accept, [errno.EMFILE, errno.ECONNABORTED]

    async def failing(listener):
        if errors:
            code = errors.pop(0)
            raise OSError(code, os.strerror(code))
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", failing)
    for _ in range(2):
        reader, writer = await scene.connect(scene.trusting)
        assert await reader.readexactly(5) == b"hello"
        writer.close()
    assert [(name, error.errno) for name, error in scene.failures] == [("accept", errno.EMFILE)]
