"""A server's unix socket beside its port, and channels that try it first."""

import asyncio
import socket
import stat
from pathlib import Path

import pytest
import uvloop

from highwater.model.errors import BindError
from highwater.rpc.addresses import UnixAddress
from highwater.rpc.channel import Channel
from highwater.rpc.client_connection import ClientConnection
from highwater.rpc.transport import Keepalive
from tests.support.rpc_demo import eventually, start_demo, unary


@pytest.fixture
def path(tmp_path):
    return tmp_path / "socket"


@pytest.fixture
def address(path):
    return UnixAddress(str(path))


@pytest.fixture
async def both(demo, address):
    """A server at both."""
    server = await start_demo(demo)
    assert await server.serve_beside(address)
    yield server
    await server.stop(drain_s=0)


@pytest.fixture
async def open_channel(both, address):
    """Makes channels that know the socket."""
    made = []

    def one(nearby=address):
        made.append(Channel(both.address, nearby=nearby))
        return made[-1]

    yield one
    for channel in made:
        await channel.close()


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def ways(channel):
    told = channel.statistics()
    return told.connections - told.unix_connections, told.unix_connections


async def test_both_are_served_and_the_path_is_for_this_user_only(both, open_channel, path):
    near, far = open_channel(), open_channel(None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    payload = bytes(range(256)) * 8192
    for channel in (near, far):
        assert await unary(channel, "Reverse", payload) == payload[::-1]
    assert (ways(near), ways(far)) == ((0, 1), (1, 0))
    assert (both.statistics().connections, both.statistics().unix_connections) == (2, 1)
    await both.stop(drain_s=1)
    assert not path.exists()


async def test_the_send_buffer_of_a_unix_socket(both, open_channel, monkeypatch):
    monkeypatch.setattr("highwater.rpc.transport.UNIX_SEND_BYTES", 96 << 10)
    near = open_channel()
    await unary(near, "Reverse", b"ab")
    for connection in (*near._connections, *both._connections):
        plain = connection.transport._transport.get_extra_info("socket")
        granted = plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert granted == 2 * (96 << 10), "the kernel counts its own part, too"


async def test_without_the_socket_the_port_is_taken_at_once(both, open_channel, path):
    path.unlink()
    channel = open_channel()
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    assert ways(channel) == (1, 0)


async def test_a_socket_that_nobody_listens_on_is_left_behind(both, address, open_channel, path):
    path.unlink()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(address.path)
    channel = open_channel()
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    assert ways(channel) == (1, 0)


async def test_a_socket_of_somebody_else(open_channel, monkeypatch):
    async def refuse(_factory, path, **_options):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", refuse)
    channel = open_channel()
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    assert ways(channel) == (1, 0)


async def test_each_attempt_begins_at_the_socket_and_leaves_no_descriptor(
    both, open_channel, path, tmp_path
):
    channel = open_channel()
    await unary(channel, "Reverse", b"ab")
    before = descriptors()
    aside = tmp_path / "aside"
    for way in ((1, 0), (0, 1)) * 5:
        if way == (1, 0):
            path.rename(aside)
        else:
            aside.rename(path)
        for connection in list(channel._connections):
            connection.transport.abort("the test")
        await eventually(lambda: not channel._connections)
        assert await unary(channel, "Reverse", b"ab") == b"ba"
        assert ways(channel) == way
    await eventually(lambda: len(both._connections) == 1)
    assert descriptors() <= before


async def test_who_listens_nowhere_is_unreachable(both, open_channel):
    channel = open_channel()
    await both.stop(drain_s=0)
    with pytest.raises(Exception, match=f"cannot connect to {both.address}"):
        await unary(channel, "Reverse", b"ab")


async def test_what_is_at_the_path_is_replaced(demo, address, path):
    path.write_text("left behind")
    server = await start_demo(demo)
    await server.serve_beside(address)
    channel = Channel(str(address))
    assert await unary(channel, "Reverse", b"ab") == b"ba"
    await channel.close()
    await server.stop(drain_s=0)


async def test_a_path_that_cannot_be_taken(demo, tmp_path):
    server = await start_demo(demo)
    (tmp_path / "socket").mkdir()
    for path in (tmp_path / "socket", tmp_path / "none" / "socket"):
        with pytest.raises(BindError, match="cannot listen on unix:"):
            await server.serve_beside(UnixAddress(str(path)))
    await server.stop(drain_s=0)


async def test_a_path_that_cannot_be_removed_is_left(both, path):
    path.unlink()
    path.mkdir()
    await both.stop(drain_s=0)
    assert path.is_dir()


async def test_a_peer_that_hangs_costs_one_attempt(both, address, open_channel, monkeypatch, path):
    """Whoever accepts and says nothing there is the peer itself, which is not tried twice."""
    monkeypatch.setattr("highwater.rpc.channel.CONNECT_TIMEOUT_S", 0.2)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(address.path)
        hanging.listen()
        channel = open_channel()
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(Exception, match="cannot connect"):
            await unary(channel, "Reverse", b"ab")
        assert asyncio.get_running_loop().time() - began_s < 5


@pytest.mark.parametrize("timeout_s", [0.0, 0.1])
@pytest.mark.parametrize("both_hang", [True, False])
def test_an_attempt_that_is_given_up_leaves_nothing_behind(
    address, monkeypatch, both_hang, timeout_s
):
    """uvloop tells a protocol of no end if `create_connection` is cancelled when it has connected."""
    monkeypatch.setattr("highwater.rpc.channel.CONNECT_TIMEOUT_S", timeout_s)
    broken, made = [], []
    monkeypatch.setattr(
        "highwater.rpc.channel.ClientConnection",
        lambda **parts: made.append(ClientConnection(**parts)) or made[-1],
    )

    async def attempts():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: broken.append(what))
        channel = Channel(f"127.0.0.1:{port}", nearby=address, keepalive=Keepalive(interval_s=0.1))
        with pytest.raises(Exception, match="cannot connect"):
            await unary(channel, "Reverse", b"ab")
        await asyncio.sleep(0.3)  # Three times as long as it takes to miss the peer.
        assert made
        assert all(one.transport._lost for one in made)
        await channel.close()

    with socket.socket(socket.AF_UNIX) as near, socket.socket() as far:
        far.bind(("127.0.0.1", 0))
        far.listen()
        port = far.getsockname()[1]
        if both_hang:
            near.bind(address.path)
            near.listen()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(attempts())
    assert not broken
