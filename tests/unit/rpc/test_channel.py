import asyncio
import socket

import pytest

from highwater.http2.frames import settings_frame
from highwater.http2.settings import MAX_CONCURRENT_STREAMS
from highwater.rpc.addresses import TcpAddress
from highwater.rpc.channel import Channel
from highwater.rpc.client_connection import ClientConnection
from highwater.rpc.errors import RpcError
from highwater.rpc.status import StatusCode
from highwater.rpc.transport import Keepalive
from tests.support.rpc_demo import Collected, Demo, eventually, start_demo, unary


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_nothing_is_connected_before_the_first_call(server, channel):
    await asyncio.sleep(0.02)
    assert server.statistics().connections_opened == 0
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    assert channel.connected


async def test_callbacks_come_after_the_call_is_there(server, channel):
    call = Collected(channel, "Echo")
    assert call.opened == 0
    assert not call.call.can_send()
    await call.until(lambda: call.opened == 1)
    assert call.call.can_send()
    call.call.cancel()


async def test_a_peer_that_is_not_there_is_unavailable(free_port):
    channel = Channel(f"127.0.0.1:{free_port}")
    begun = asyncio.get_running_loop().time()
    for _ in range(2):  # The second one in the pause.
        with pytest.raises(RpcError, match="cannot connect") as caught:
            await unary(channel, "Reverse", b"ab")
        assert caught.value.code is StatusCode.UNAVAILABLE
    assert asyncio.get_running_loop().time() - begun < 2
    await channel.close()


async def test_wait_for_ready_waits_until_the_peer_is_there(free_port, demo):
    channel = Channel(f"127.0.0.1:{free_port}")
    waiting = Collected(channel, "Echo", wait_for_ready=True)
    waiting.call.send(b"early")
    late = Collected(channel, "Echo", wait_for_ready=True, timeout_s=0.1)
    assert (await late.over()).code is StatusCode.DEADLINE_EXCEEDED
    server = await start_demo(demo, address=TcpAddress("127.0.0.1", free_port))
    assert await waiting.got(1) == [b"<early>"]
    await channel.close()
    assert (await waiting.over()).code is StatusCode.CANCELLED
    await server.stop(drain_s=0)


async def test_a_peer_that_comes_back_is_found_again(demo, free_port):
    address = TcpAddress("127.0.0.1", free_port)
    server = await start_demo(demo, address=address)
    channel = Channel(server.address)
    call = Collected(channel, "Echo")
    call.call.send(b"x")
    await call.got(1)
    await server.stop(drain_s=0)
    assert (await call.over()).code is StatusCode.UNAVAILABLE
    with pytest.raises(RpcError):
        await unary(channel, "Reverse", b"ab")
    server = await start_demo(Demo(), address=address)
    assert await unary(channel, "Reverse", b"ab", wait_for_ready=True) == b"ba"
    await channel.close()
    await server.stop(drain_s=0)


async def test_a_peer_that_accepts_and_says_nothing(monkeypatch):
    monkeypatch.setattr("highwater.rpc.channel.CONNECT_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        channel = Channel(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(RpcError, match="no answer") as caught:
            await unary(channel, "Reverse", b"ab")
        assert caught.value.code is StatusCode.UNAVAILABLE
        await channel.close()


async def test_a_peer_that_falls_silent_is_given_up():
    """Half-open: its machine is gone, and nobody closes the connection."""
    gone = asyncio.Event()

    async def greet(reader, writer):
        writer.write(settings_frame([]))
        while await reader.read(1 << 16):
            pass
        gone.set()
        writer.close()

    silent = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    channel = Channel(f"127.0.0.1:{port}", keepalive=Keepalive(interval_s=0.05, timeout_s=0.05))
    call = Collected(channel, "Echo")
    status = await call.over()
    assert status.code is StatusCode.UNAVAILABLE
    assert "keepalive" in status.details
    async with asyncio.timeout(5):
        await gone.wait()
    await channel.close()
    silent.close()


class Failing:
    """A server whose first calls are lost with their connection."""

    def __init__(self, server, demo, lost):
        self.lost = lost
        self.asked = 0
        server.methods._handlers["/demo.Demo/Reverse"] = self._wrapped(server)

    def _wrapped(self, server):
        serve = server.methods._handlers["/demo.Demo/Reverse"]

        def handle(call):
            self.asked += 1
            if self.asked <= self.lost:
                for connection in list(server._connections):
                    connection.transport.abort("lost")
            return serve(call)

        return handle


async def test_reads_are_repeated_and_other_calls_are_not(server, channel, demo):
    failing = Failing(server, demo, lost=2)
    assert await unary(channel, "Reverse", b"ab", idempotent=True) == b"ba"
    assert failing.asked == 3
    failing = Failing(server, demo, lost=1)
    with pytest.raises(RpcError) as caught:
        await unary(channel, "Reverse", b"ab")
    assert caught.value.code is StatusCode.UNAVAILABLE
    assert failing.asked == 1


async def test_repetitions_end(server, channel, demo):
    failing = Failing(server, demo, lost=9)
    with pytest.raises(RpcError):
        await unary(channel, "Reverse", b"ab", idempotent=True)
    assert failing.asked == 3


async def test_deadlines_and_cancelled_waiters(channel, demo):
    with pytest.raises(RpcError) as caught:
        await unary(channel, "Sleep", b"", timeout_s=0.1)
    assert caught.value.code is StatusCode.DEADLINE_EXCEEDED
    await eventually(lambda: demo.ends)
    waiting = asyncio.ensure_future(unary(channel, "Sleep", b""))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await eventually(lambda: len(demo.ends) == 2)


async def test_too_many_calls_that_wait_are_refused(free_port, monkeypatch):
    monkeypatch.setattr("highwater.rpc.channel.CALLS_WAITING_MAX", 2)
    channel = Channel(f"127.0.0.1:{free_port}")
    calls = [Collected(channel, "Echo", wait_for_ready=True) for _ in range(3)]
    assert (await calls[2].over()).code is StatusCode.RESOURCE_EXHAUSTED
    assert calls[0].status is None
    await channel.close()


async def test_close_ends_everything(server, demo):
    channel = Channel(server.address)
    call = Collected(channel, "Echo")
    call.call.send(b"x")
    await call.got(1)
    await channel.close()
    assert (await call.over()).code is StatusCode.CANCELLED
    await eventually(lambda: server.statistics().connections == 0)
    [(_, status)] = demo.ends
    assert status.code is StatusCode.CANCELLED
    late = Collected(channel, "Echo")
    assert (await late.over()).code is StatusCode.CANCELLED


async def test_bugs_of_callbacks_end_their_call_and_are_reported(server):
    failures = []
    channel = Channel(
        server.address, on_failure=lambda name, error: failures.append((name, type(error)))
    )
    ends = []

    def fail(*_):
        raise ZeroDivisionError

    call = channel.stream("/demo.Demo/Echo", on_message=fail, on_end=ends.append, on_open=fail)
    call.send(b"x")
    await eventually(lambda: ends)
    assert ends[0].code is StatusCode.UNKNOWN
    assert failures == [("/demo.Demo/Echo", ZeroDivisionError)] * 2
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    await channel.close()


async def test_a_connection_without_identifiers_is_replaced(server, channel):
    first = Collected(channel, "Echo")
    first.call.send(b"a")
    await first.got(1)
    next(iter(channel._connections)).http2._table.next_id = (1 << 31) - 1
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    assert await unary(channel, "Reverse", b"cd") == b"dc"
    assert server.statistics().connections_opened == 2
    first.call.half_close()
    assert (await first.over()).code is StatusCode.OK
    await eventually(lambda: server.statistics().connections == 1)


async def test_calls_that_wait_go_when_the_peer_allows_more_streams(server, channel):
    first = Collected(channel, "Echo")
    await first.until(lambda: first.opened)
    connection = next(iter(channel._connections))
    connection.http2._table.peer.streams_max = 1
    second = Collected(channel, "Echo")
    await asyncio.sleep(0.02)
    assert second.opened == 0
    [accepted] = server._connections
    accepted.http2.output.control(settings_frame([(MAX_CONCURRENT_STREAMS, 2)]))
    await second.until(lambda: second.opened)
    first.call.cancel()
    second.call.cancel()


async def test_what_is_no_address():
    with pytest.raises(ValueError, match="no address"):
        Channel("nowhere")


class Closed:
    """The socket of an attempt that was cancelled: uvloop has closed it, and says so by errors only."""

    def __init__(self):
        self.closed, self.errors = False, 0

    def is_closing(self):
        return False

    def write(self, data):
        if self.closed:
            self.errors += 1
            raise RuntimeError("the handler is closed")

    def get_extra_info(self, name, default=None):
        return default

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def abort(self):
        pass

    close = abort


async def test_an_attempt_that_ends_with_its_channel_writes_nothing_more(free_port, monkeypatch):
    made, begun = Closed(), []

    async def connect(connection, _address, _tls):
        begun.append(connection)
        try:
            await asyncio.Event().wait()
        finally:
            made.closed = True

    monkeypatch.setattr(ClientConnection, "connect", connect)
    channel = Channel(f"127.0.0.1:{free_port}")
    call = Collected(channel, "Echo", wait_for_ready=True)
    await eventually(lambda: begun)
    loop = asyncio.get_running_loop()
    loop.call_soon(begun[0].transport.connection_made, made)
    await channel.close()
    assert (await call.over()).code is StatusCode.CANCELLED
    await asyncio.sleep(0.01)
    assert made.closed
    assert made.errors == 0
    assert channel.statistics().connections == 0
