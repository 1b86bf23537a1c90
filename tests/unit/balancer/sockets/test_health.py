import asyncio
import contextlib
import ssl

import pytest

from highwater.balancer.core.pool import Pool
from highwater.balancer.sockets.health import QUESTION, HealthChecks
from highwater.runtime.logging import silent_logger
from highwater.runtime.proxy_protocol import LOCAL_HEADER
from tests.support.certificates import make_certificate, tls_contexts
from tests.unit.balancer.gateways import FakeGateway


@pytest.fixture
async def gateway():
    made = FakeGateway("127.0.0.1")
    made.port = await made.serve(0)
    yield made
    await made.stop()


def checks_of(pool, port, gateways=("127.0.0.1",), **settings):
    defaults = {"proxy_protocol": True, "every_s": 0.02, "timeout_s": 0.5}
    return HealthChecks(
        pool, gateways=gateways, port=port, log=silent_logger(), **(defaults | settings)
    )


def test_the_question_is_an_api_versions_request():
    assert int.from_bytes(QUESTION[:4], "big") == len(QUESTION) - 4
    assert QUESTION[4:14] == b"\0\x12\0\0\0\0\0\x01\0\x08"
    assert QUESTION[14:] == b"balancer"


async def test_a_gateway_that_answers_is_up_and_one_that_stops_goes_down(gateway):
    pool = Pool()
    checks = checks_of(pool, gateway.port)
    await checks.check_once()
    assert pool.up == ["127.0.0.1"]
    assert gateway.clients == []
    await gateway.stop()
    await checks.check_once()
    assert pool.up == ["127.0.0.1"]
    await checks.check_once()
    assert pool.up == []


async def test_accepting_a_connection_is_not_enough(gateway):
    gateway.healthy = False
    pool = Pool()
    await checks_of(pool, gateway.port).check_once()
    assert gateway.checks == 1
    assert pool.up == []


async def test_a_silent_gateway_is_down_after_the_timeout():
    stopped = asyncio.Event()

    async def be_silent(_reader, writer):
        await stopped.wait()
        writer.close()

    server = await asyncio.start_server(be_silent, "127.0.0.1", 0)
    pool = Pool()
    async with asyncio.timeout(5):
        port = server.sockets[0].getsockname()[1]
        await checks_of(pool, port, timeout_s=0.05).check_once()
    assert pool.up == []
    stopped.set()
    server.close()


async def test_a_name_that_is_unknown_for_a_while_keeps_its_addresses(gateway, monkeypatch):
    pool = Pool()
    checks = checks_of(pool, gateway.port, ("gateway.test", "127.0.0.1"))
    answers = [[(2, 1, 6, "", ("127.0.0.1", 0)), (2, 1, 6, "", ("127.0.0.2", 0))]]

    async def look_up(name, _port, **_kind):
        if name == "127.0.0.1":
            return [(2, 1, 6, "", ("127.0.0.1", 0))]
        if not answers:
            raise OSError("no such name")
        return answers.pop()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    await checks.check_once()
    assert pool.addresses == ["127.0.0.1", "127.0.0.2"], "each once"
    await checks.check_once()
    assert pool.addresses == ["127.0.0.1", "127.0.0.2"]
    answers.append([])
    await checks.check_once()
    assert pool.addresses == ["127.0.0.1"]


async def test_checks_repeat(gateway):
    pool = Pool()
    task = asyncio.ensure_future(checks_of(pool, gateway.port).run())
    async with asyncio.timeout(5):
        while gateway.checks < 3:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.fixture
async def secured(tmp_path):
    """The port of a listener with TLS behind a PROXY header, that takes only clients with a certificate."""
    certificate = make_certificate(tmp_path)
    context, _ = tls_contexts(certificate)
    context.load_verify_locations(certificate[0])
    context.verify_mode = ssl.CERT_REQUIRED

    async def serve(reader, writer):
        assert await reader.readexactly(len(LOCAL_HEADER)) == LOCAL_HEADER
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        engine = context.wrap_bio(incoming, outgoing, server_side=True)
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 14):
                incoming.write(data)
                with contextlib.suppress(ssl.SSLWantReadError):
                    engine.do_handshake()
                writer.write(outgoing.read())
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_with_tls_the_first_step_of_a_handshake_is_enough(secured):
    pool = Pool()
    await checks_of(pool, secured, tls=True).check_once()
    assert pool.up == ["127.0.0.1"]


@pytest.mark.parametrize("answer", [b"\x15\x03\x03\x00\x02\x02\x28", b"plain", b""])
async def test_an_alert_or_anything_else_is_no_handshake(answer):
    async def refuse(_reader, writer):
        writer.write(answer)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    pool = Pool()
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    await checks_of(pool, server.sockets[0].getsockname()[1], tls=True).check_once()
    assert pool.up == []
    server.close()
