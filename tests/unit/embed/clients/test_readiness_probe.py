import asyncio
import socket

import pytest
from prometheus_client import CollectorRegistry

from highwater.embed.clients.readiness_probe import ask, main
from highwater.model.errors import HighwaterError, UnreachableError
from highwater.runtime.health import Readiness
from highwater.runtime.metrics import MetricsServer


@pytest.fixture
async def service():
    class Service:
        ready = True

    readiness = Readiness()
    readiness.add("metadata", lambda: Service.ready)
    server = MetricsServer(CollectorRegistry(), readiness, host="127.0.0.1", port=0)
    await server.start()
    Service.port = server.port
    yield Service
    await server.stop()


async def in_thread(call, *arguments):
    return await asyncio.to_thread(call, *arguments)


async def test_ready(service, capsys):
    assert await in_thread(ask, "127.0.0.1", service.port) == "ready"
    assert await in_thread(main, [f"127.0.0.1:{service.port}"]) == 0
    assert capsys.readouterr().out == "ready\n"


async def test_not_ready(service, capsys):
    service.ready = False
    with pytest.raises(HighwaterError, match="not ready: metadata"):
        await in_thread(ask, "127.0.0.1", service.port)
    assert await in_thread(main, [f"127.0.0.1:{service.port}"]) == 1
    assert "not ready: metadata" in capsys.readouterr().err


def test_nothing_listens_at_the_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError, match="no answer"):
            ask("127.0.0.1", taken.getsockname()[1])


def test_a_silent_server_times_out():
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(UnreachableError, match="timed out"),
    ):
        ask("127.0.0.1", silent.getsockname()[1], 0.1)


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1"])
async def test_another_program(said):
    async def say(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    async with await asyncio.start_server(say, "127.0.0.1", 0) as server:
        with pytest.raises(UnreachableError, match="not HTTP"):
            await in_thread(ask, *server.sockets[0].getsockname())


@pytest.mark.parametrize("arguments", [[], ["9600"], ["host:"], ["a:1", "b:2"]])
def test_not_an_address(arguments):
    assert main(arguments) == 2
