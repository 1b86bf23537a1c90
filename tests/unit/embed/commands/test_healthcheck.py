import asyncio
import socket

import pytest
from prometheus_client import CollectorRegistry

from highwater.embed.commands.healthcheck import ask
from highwater.model.errors import HighwaterError, UnreachableError, UsageError
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
    Service.address = f"127.0.0.1:{server.port}"
    yield Service
    await server.stop()


async def ask_in_thread(address):
    return await asyncio.to_thread(ask, address, 5.0)


async def test_ready(service):
    assert await ask_in_thread(service.address) == "ready"


async def test_not_ready(service):
    service.ready = False
    with pytest.raises(HighwaterError, match="not ready: metadata"):
        await ask_in_thread(service.address)


def test_nobody_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError, match="no answer"):
            ask(f"127.0.0.1:{taken.getsockname()[1]}", 1.0)


def test_silence():
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(UnreachableError, match="timed out"),
    ):
        ask(f"127.0.0.1:{silent.getsockname()[1]}", 0.1)


def test_not_an_address():
    with pytest.raises(UsageError):
        ask("9600", 1.0)
