"""The cluster's secret on the hop: either transport at either end, and the node's unix socket."""

import asyncio

import pytest
import structlog

from highwater.hop.settings import HopTransport
from highwater.hop.transport import make_server, open_channel
from highwater.rpc.addresses import UnixAddress
from highwater.rpc.errors import RpcError
from highwater.rpc.guard import NO_SECRET, WRONG_SECRET
from highwater.rpc.inner import Inner
from highwater.rpc.ports import ServerCallbacks
from highwater.rpc.status import StatusCode
from highwater.runtime.inner_settings import InnerSettings

STREAM, UNARY = "/test.Service/Stream", "/test.Service/Unary"
SECRET, OTHER = "s" * 20, "t" * 20
CALL_S = 10.0


def inner_of(directory, secret, log=None):
    path = directory / secret[0]
    path.write_text(secret)
    path.chmod(0o600)
    return Inner(InnerSettings(secret_file=path), log)


class Peers:
    """A server that asks for the secret, and channels that show one or none."""

    def __init__(self, served, called, directory):
        self._served, self._called, self._directory = served, called, directory
        self.begun, self._channels = [], []

    def _failed(self, name, error):
        raise AssertionError(name) from error

    async def start(self):
        def echo(call):
            self.begun.append((call.path, list(call.metadata)))
            return ServerCallbacks(on_message=call.send, on_half_close=call.finish)

        async def reverse(request, call):
            self.begun.append((call.path, list(call.metadata)))
            return request[::-1]

        guard = inner_of(self._directory, SECRET, structlog.get_logger()).guard()
        self.server = make_server("127.0.0.1", 0, self._served, self._failed, guard=guard)
        self.server.methods.add_stream(STREAM, echo)
        self.server.methods.add_unary(UNARY, reverse, deserialize=bytes, serialize=bytes)
        await self.server.start()

    def channel(self, secret=None, nearby=None):
        shows = Inner() if secret is None else inner_of(self._directory, secret)
        made = open_channel(
            self.server.address,
            self._called,
            self._failed,
            proof=lambda: shows.proof,
            nearby=nearby,
        )
        self._channels.append(made)
        return made

    async def close(self):
        for channel in self._channels:
            await channel.close()
        await self.server.stop(drain_s=0)


@pytest.fixture(params=HopTransport, ids=lambda transport: f"server-{transport}")
def served(request):
    return request.param


@pytest.fixture(params=HopTransport, ids=lambda transport: f"client-{transport}")
def called(request):
    return request.param


@pytest.fixture
async def peers(served, called, tmp_path):
    made = Peers(served, called, tmp_path)
    await made.start()
    yield made
    await made.close()


async def ask(channel, metadata=()):
    return await channel.unary(
        UNARY, b"abc", serialize=bytes, deserialize=bytes, timeout_s=CALL_S, metadata=metadata
    )


async def streamed(channel, message=b"abc"):
    """What came back, and how the call ended."""
    received, ended = [], asyncio.get_running_loop().create_future()
    call = channel.stream(
        STREAM,
        on_message=lambda one: received.append(bytes(one)),
        on_end=ended.set_result,
    )
    call.send(message)
    call.half_close()
    async with asyncio.timeout(CALL_S):
        return received, await ended


async def test_with_the_secret_all_is_as_without(peers):
    channel = peers.channel(SECRET)
    assert await ask(channel, [("k", "v")]) == b"cba"
    received, status = await streamed(channel)
    assert (received, status.code) == ([b"abc"], StatusCode.OK)
    assert [path for path, _ in peers.begun] == [UNARY, STREAM]
    assert ("k", "v") in peers.begun[0][1]
    assert SECRET not in repr(peers.begun), "handlers do not see it"


def _refusals(called):
    """grpc.aio says INTERNAL if a call ends while it is still writing its headers."""
    late = {StatusCode.INTERNAL} if called is HopTransport.GRPCIO else set()
    return {StatusCode.UNAUTHENTICATED, *late}


@pytest.mark.parametrize(("secret", "why"), [(None, NO_SECRET), (OTHER, WRONG_SECRET)])
async def test_without_it_no_handler_hears_of_the_call(peers, called, secret, why):
    channel = peers.channel(secret)
    with structlog.testing.capture_logs() as logs:
        with pytest.raises(RpcError) as caught:
            await ask(channel)
        assert (caught.value.code, caught.value.details) == (StatusCode.UNAUTHENTICATED, why)
        for _ in range(3):
            received, status = await streamed(channel)
            assert received == []
            assert status.code in _refusals(called), status
    assert peers.begun == []
    told = [one for one in logs if one["event"] == "inner_call_refused"]
    assert [(one["path"], one["reason"]) for one in told] == [(UNARY, why), (STREAM, why)]
    assert not any(word in repr((logs, caught.value)) for word in (SECRET, OTHER))


async def test_health_and_methods_that_nobody_serves_are_refused_likewise(peers):
    channel = peers.channel()
    for path in ("/grpc.health.v1.Health/Check", "/none.None/None"):
        with pytest.raises(RpcError) as caught:
            await channel.unary(path, b"", serialize=bytes, deserialize=bytes, timeout_s=CALL_S)
        assert caught.value.code is StatusCode.UNAUTHENTICATED


async def test_a_refused_peer_does_not_disturb_others(peers):
    good, bad = peers.channel(SECRET), peers.channel()
    for _ in range(50):
        with pytest.raises(RpcError) as caught:
            await ask(bad)
        assert caught.value.code in {StatusCode.UNAUTHENTICATED, StatusCode.UNAVAILABLE}
        assert await ask(good) == b"cba"


async def test_the_unix_socket_asks_likewise(peers, served, called, tmp_path):
    path = UnixAddress(str(tmp_path / "socket"))
    if served is HopTransport.GRPCIO or called is HopTransport.GRPCIO:
        pytest.skip("grpcio keeps to TCP")
    assert await peers.server.serve_beside(path)
    with pytest.raises(RpcError) as caught:
        await ask(peers.channel(nearby=path))
    assert caught.value.code is StatusCode.UNAUTHENTICATED
    assert await ask(peers.channel(SECRET, nearby=path)) == b"cba"
    assert peers.server.statistics().unix_connections == 2
