"""Secret and certificates of servers of grpcio, asked by stock stubs and by ours."""

import asyncio
import contextlib

import grpc
import grpc.aio
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from highwater.rpc.grpcio_guard import (
    NO_NAME,
    GuardInterceptor,
    ProvingChannel,
    client_credentials,
    server_credentials,
)
from highwater.rpc.guard import NO_SECRET
from highwater.rpc.inner import Inner
from highwater.runtime import reloaded_files
from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.grpc_server import GrpcServer
from highwater.runtime.health import GrpcHealth
from highwater.runtime.inner_settings import InnerSettings
from tests.support.certificates import make_authority

SECRET = "s" * 20
CALL_S = 10.0
REQUEST = health_pb2.HealthCheckRequest()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def files_of(authority, name, directory=None):
    cert, key = authority.issue(name, directory)
    return {"ca_file": authority.certificate, "cert_file": cert, "key_file": key}


@contextlib.asynccontextmanager
async def serving(settings):
    """A health service, which has a unary call and a stream."""
    inner = Inner(settings, structlog.get_logger())
    guard = inner.guard()
    server = GrpcServer(
        "127.0.0.1",
        0,
        interceptors=() if guard is None else (GuardInterceptor(guard),),
        credentials=server_credentials(inner.server_tls),
    )
    health = GrpcHealth()
    await health.set_serving(serving=True)
    server.register(health.add_to_server)
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop(drain_s=0)


@contextlib.asynccontextmanager
async def stub_of(address, settings=None):
    inner = Inner(settings)
    channel = open_channel(address, credentials=client_credentials(inner.client_tls))
    yield health_pb2_grpc.HealthStub(ProvingChannel(channel, lambda: inner.proof))
    await channel.close(None)


async def check(address, settings=None):
    """The code of a unary call and that of a stream."""
    async with stub_of(address, settings) as stub:
        codes = []
        for method in (stub.Check, stub.Watch):
            call = method(REQUEST, timeout=CALL_S)
            try:
                if method is stub.Watch:
                    assert await call.read() is not grpc.aio.EOF
                else:
                    await call
            except grpc.aio.AioRpcError as error:
                codes.append(error.code())
            else:
                codes.append(grpc.StatusCode.OK)
            call.cancel()
        return codes


OK = [grpc.StatusCode.OK] * 2
REFUSED = [grpc.StatusCode.UNAUTHENTICATED] * 2
UNREACHED = [grpc.StatusCode.UNAVAILABLE] * 2


async def test_without_settings_everybody_is_served():
    async with serving(InnerSettings()) as address:
        assert await check(address) == OK


async def test_the_secret_of_unary_calls_and_streams(secret_file, tmp_path):
    other = tmp_path / "other"
    other.write_text("o" * 20)
    with structlog.testing.capture_logs() as logs:
        async with serving(InnerSettings(secret_file=secret_file)) as address:
            assert await check(address) == REFUSED
            assert await check(address, InnerSettings(secret_file=other)) == REFUSED
            assert await check(address, InnerSettings(secret_file=secret_file)) == OK
    told = [one for one in logs if one["event"] == "inner_call_refused"]
    assert {one["path"] for one in told} == {
        "/grpc.health.v1.Health/" + m for m in ("Check", "Watch")
    }
    assert told[0]["reason"] == NO_SECRET
    assert SECRET not in repr(logs)


async def test_a_blocking_channel_shows_it_too(secret_file):
    inner = Inner(InnerSettings(secret_file=secret_file))
    async with serving(InnerSettings(secret_file=secret_file)) as address:

        def ask():
            with grpc.insecure_channel(address) as channel:
                stub = health_pb2_grpc.HealthStub(ProvingChannel(channel, lambda: inner.proof))
                return stub.Check(REQUEST, timeout=CALL_S).status

        assert await asyncio.to_thread(ask) == health_pb2.HealthCheckResponse.SERVING


async def test_certificates_of_both_ends(authority, tmp_path_factory):
    strange = make_authority(tmp_path_factory.mktemp("strange"))
    theirs = files_of(strange, "stranger")
    async with serving(InnerSettings(**files_of(authority, "server"))) as address:
        assert await check(address, InnerSettings(**files_of(authority, "client"))) == OK
        assert await check(address) == UNREACHED, "plain"
        assert await check(address, InnerSettings(**theirs)) == UNREACHED
        # It trusts the server, and shows what the server does not trust.
        forged = theirs | {"ca_file": authority.certificate}
        assert await check(address, InnerSettings(**forged)) == UNREACHED


async def test_names_of_callers(authority):
    settings = InnerSettings(**files_of(authority, "server"), names=("client", "another"))
    with structlog.testing.capture_logs() as logs:
        async with serving(settings) as address:
            assert await check(address, InnerSettings(**files_of(authority, "client"))) == OK
            assert await check(address, InnerSettings(**files_of(authority, "nobody"))) == REFUSED
            async with stub_of(address, InnerSettings(**files_of(authority, "nobody"))) as stub:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await stub.Check(REQUEST, timeout=CALL_S)
    assert caught.value.details() == NO_NAME
    told = [one for one in logs if one["event"] == "inner_peer_refused"]
    assert "nobody" in told[0]["names"]


async def test_certificate_and_secret_together(authority, secret_file):
    files = files_of(authority, "server")
    both = InnerSettings(**files, secret_file=secret_file)
    async with serving(both) as address:
        assert await check(address, both) == OK
        assert await check(address, InnerSettings(**files)) == REFUSED
        assert await check(address, InnerSettings(secret_file=secret_file)) == UNREACHED


async def test_certificates_are_read_again(authority, tmp_path, monkeypatch, tmp_path_factory):
    monkeypatch.setattr(reloaded_files, "LOOK_S", 0.0)
    later = make_authority(tmp_path_factory.mktemp("later"))
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.certificate.read_bytes())
    files = files_of(authority, "server", tmp_path / "server") | {"ca_file": trusted}
    before, after = (InnerSettings(**files_of(one, "client")) for one in (authority, later))
    async with serving(InnerSettings(**files)) as address:
        assert [await check(address, one) for one in (before, after)] == [OK, UNREACHED]
        trusted.write_bytes(later.certificate.read_bytes())
        later.issue("server", tmp_path / "server")
        assert [await check(address, one) for one in (before, after)] == [UNREACHED, OK]
