import asyncio

import pytest
from prometheus_client import CollectorRegistry, Counter

from highwater.model.errors import BindError, PortInUseError
from highwater.runtime.health import Readiness
from highwater.runtime.metrics import MetricsServer, process_registry


@pytest.fixture
async def server():
    registry = CollectorRegistry()
    Counter("requests", "All of them.", registry=registry).inc(3)
    readiness = Readiness()
    server = MetricsServer(registry, readiness, host="127.0.0.1", port=0)
    server.readiness = readiness
    await server.start()
    yield server
    await server.stop()


async def ask(server, raw):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(raw)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode(), body.decode()


async def get(server, path):
    return await ask(server, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


async def test_metrics_are_the_registry_that_was_given(server):
    head, body = await get(server, "/metrics")
    assert head.startswith("HTTP/1.1 200 OK")
    assert "requests_total 3.0" in body
    assert "python_info" not in body


async def test_health_and_readiness(server):
    assert (await get(server, "/healthz?x=1"))[1] == "ok\n"
    store = []
    server.readiness.add("metadata", lambda: True)
    server.readiness.add("store", lambda: bool(store))
    head, body = await get(server, "/readyz")
    assert head.startswith("HTTP/1.1 503")
    assert body == "not ready: store\n"
    store.append(1)
    assert (await get(server, "/readyz"))[0].startswith("HTTP/1.1 200")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"nonsense\r\n\r\n", "400"),
    ],
)
async def test_other_requests(server, raw, status):
    assert (await ask(server, raw))[0].startswith(f"HTTP/1.1 {status}")


async def test_head_has_no_body(server):
    head, body = await ask(server, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert "Content-Length: " in head
    assert body == ""


async def test_endless_headers_close_the_connection(server):
    assert await ask(server, b"GET / HTTP/1.1\r\n" + b"x" * 20_000) == ("", "")


async def test_port_in_use_and_unknown_host(server):
    readiness = Readiness()
    second = MetricsServer(CollectorRegistry(), readiness, host="127.0.0.1", port=server.port)
    with pytest.raises(PortInUseError, match=str(server.port)):
        await second.start()
    await second.stop()
    elsewhere = MetricsServer(CollectorRegistry(), readiness, host="192.0.2.1", port=0)
    with pytest.raises(BindError, match=r"192\.0\.2\.1"):
        await elsewhere.start()


def test_process_registries_tell_about_the_process_and_do_not_collide():
    for registry in (process_registry(), process_registry()):
        assert registry.get_sample_value("process_resident_memory_bytes") > 1 << 20
