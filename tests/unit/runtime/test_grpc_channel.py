import asyncio
import contextlib
import json
import time

import grpc.aio
import pytest

from highwater.runtime.grpc_channel import open_channel, service_config
from tests.support.etcd import free_ports


def test_only_listed_methods_are_retried():
    config = json.loads(service_config([("demo.Reads", "Get"), ("demo.Reads", "List")]))
    (method_config,) = config["methodConfig"]
    assert method_config["name"] == [
        {"service": "demo.Reads", "method": "Get"},
        {"service": "demo.Reads", "method": "List"},
    ]
    assert method_config["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
    assert method_config["retryPolicy"]["maxAttempts"] == 3
    assert "retryThrottling" in config


def test_nothing_is_retried_by_default():
    assert json.loads(service_config([])) == {}


async def _ready(address, timeout_s):
    channel = open_channel(address)
    try:
        await asyncio.wait_for(channel.channel_ready(), timeout_s)
    finally:
        await channel.close()


class SlowWay:
    """Forwards connections to a port, each after a pause, like a peer without CPU time."""

    def __init__(self, port, pause_s):
        self.port, self.pause_s = port, pause_s
        self.tasks = set()

    async def __call__(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        await asyncio.sleep(self.pause_s)
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(_pipe(reader, other_writer), _pipe(other_reader, writer))

    async def end(self):
        """Waits until the peers have disconnected."""
        await asyncio.wait_for(asyncio.gather(*self.tasks, return_exceptions=True), 8)


async def _pipe(reader, writer):
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.slow
async def test_a_peer_that_is_slow_to_greet_is_reached():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    slow_way = SlowWay(port, pause_s=1.5)
    listener = await asyncio.start_server(slow_way, "127.0.0.1", 0)
    try:
        address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        await _ready(address, timeout_s=8)
    finally:
        await server.stop(0)
        await slow_way.end()
        listener.close()


@pytest.mark.slow
async def test_a_peer_that_comes_back_is_reached_soon():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await server.stop(0)
    waiting = asyncio.create_task(_ready(f"127.0.0.1:{port}", timeout_s=8))
    await asyncio.sleep(1.5)  # Long enough for the greatest pause between attempts.
    assert not waiting.done()
    server = grpc.aio.server()
    server.add_insecure_port(f"127.0.0.1:{port}")
    began = time.monotonic()
    await server.start()
    try:
        await waiting
        assert time.monotonic() - began < 2
    finally:
        await server.stop(0)


async def test_a_new_channel_connects_at_once_whatever_others_wait_for():
    """When a peer is reachable again, all its users open new channels."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    waiting = open_channel(address)
    try:
        await _refused(waiting)
        server = grpc.aio.server()
        assert server.add_insecure_port(address) == port
        await server.start()
        begun = time.monotonic()
        await _ready(address, timeout_s=5)
        assert time.monotonic() - begun < 0.15
        await server.stop(0)
    finally:
        await waiting.close()


async def _refused(channel):
    """Calls until gRPC's pauses have their greatest length, half a second."""
    call = channel.unary_unary("/nobody/Answers")
    ends = time.monotonic() + 1.5
    while time.monotonic() < ends:
        with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
            await call(b"", timeout=2)
        await asyncio.sleep(0.02)
