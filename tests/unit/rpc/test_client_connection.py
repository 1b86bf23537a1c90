import asyncio
import contextlib

from highwater.http2.abuse import AbuseLimits
from highwater.http2.frames import GOAWAY, goaway_frame, settings_frame
from highwater.http2.settings import LocalSettings
from highwater.rpc.addresses import TcpAddress
from highwater.rpc.client_connection import ClientConnection
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.transport import Keepalive
from tests.support.http2_wire import frames_of
from tests.support.rpc_demo import eventually


class Server:
    """Plays the peer in bytes."""

    def __init__(self):
        self.received = b""
        self.closed = False
        self.writer = None

    async def __call__(self, reader, writer):
        self.writer = writer
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                self.received += data
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self.closed = True


async def connected(server):
    accepted = await asyncio.start_server(server, "127.0.0.1", 0)
    events = []
    connection = ClientConnection(
        loop=asyncio.get_running_loop(),
        settings=LocalSettings(),
        limits=AbuseLimits(),
        keepalive=Keepalive(),
        assembly_bytes_max=1 << 20,
        memory=PeerMemory(),
        on_failure=lambda name, error: events.append((name, error)),
        room=lambda: events.append("room"),
        drained=lambda _connection: events.append("drained"),
        lost=lambda _connection, words: events.append(f"lost: {words}"),
    )
    port = accepted.sockets[0].getsockname()[1]
    connecting = asyncio.ensure_future(connection.connect(TcpAddress("127.0.0.1", port), None))
    await eventually(lambda: server.writer)
    assert not connecting.done()
    server.writer.write(settings_frame([]))
    await asyncio.wait_for(connecting, 5)
    return connection, events, accepted


async def test_ready_means_that_the_peers_settings_are_here():
    server = Server()
    connection, events, accepted = await connected(server)
    assert connection.takes_calls
    connection.close("enough")
    await eventually(lambda: events)
    assert events == ["lost: enough"]
    await eventually(lambda: server.closed)
    assert [kind for kind, *_ in frames_of(server.received)][-1] == GOAWAY
    accepted.close()


async def test_closing_before_there_is_a_socket_says_no_goodbye():
    """A channel closes while an attempt to connect is under way, and cancels the attempt."""
    connection = ClientConnection(
        loop=asyncio.get_running_loop(),
        settings=LocalSettings(),
        limits=AbuseLimits(),
        keepalive=Keepalive(),
        assembly_bytes_max=1 << 20,
        memory=PeerMemory(),
        on_failure=lambda _name, _error: None,
        room=lambda: None,
        drained=lambda _connection: None,
        lost=lambda _connection, _words: None,
    )
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    connection.close("the channel is closed")
    assert connection.draining
    await asyncio.sleep(0)
    assert failures == [], "nobody has sent to a socket that is not there"
    assert not connection.http2.output.frames


async def test_goaway_is_told_once_and_an_idle_connection_closes():
    server = Server()
    connection, events, accepted = await connected(server)
    server.writer.write(goaway_frame((1 << 31) - 1, 0) + goaway_frame(0, 0))
    await eventually(lambda: connection.draining)
    assert connection.draining
    assert not connection.takes_calls
    await eventually(lambda: len(events) > 1)
    assert events == ["drained", "lost: drained"]
    await eventually(lambda: server.closed)
    accepted.close()


async def test_a_peer_that_closes_is_told():
    server = Server()
    connection, events, accepted = await connected(server)
    server.writer.close()
    await eventually(lambda: events)
    assert "lost" in events[0]
    assert connection.draining
    await eventually(lambda: server.closed)
    accepted.close()


async def test_a_violation_closes():
    server = Server()
    _, events, accepted = await connected(server)
    server.writer.write(b"\0\0\x01\x06\0\0\0\0\0x")
    await eventually(lambda: events)
    assert "FRAME_SIZE_ERROR" in events[0]
    await eventually(lambda: server.closed)
    accepted.close()
