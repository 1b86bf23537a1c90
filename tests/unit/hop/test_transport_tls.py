"""TLS of the hop: either transport at either end, with the same certificates."""

import asyncio

import pytest

from highwater.hop.settings import HopTransport
from highwater.hop.transport import make_server, open_channel
from highwater.rpc.errors import RpcError
from highwater.rpc.ports import ServerCallbacks
from highwater.rpc.status import StatusCode
from highwater.rpc.tls import CertificateFiles, ClientTls, ServerTls
from tests.support.certificates import make_certificate

STREAM, UNARY = "/test.Service/Stream", "/test.Service/Unary"
LARGE = bytes(range(256)) * 16_384
CALL_S = 10.0
HOST = "127.0.0.1"
NOT_NAMED = "127.0.0.2"
"""A host of this machine that no certificate names."""


@pytest.fixture(scope="module", name="ours")
def _ours(tmp_path_factory):
    certificate, key = make_certificate(tmp_path_factory.mktemp("ours"))
    return CertificateFiles(certificate=certificate, key=key)


@pytest.fixture(scope="module", name="theirs")
def _theirs(tmp_path_factory):
    certificate, key = make_certificate(tmp_path_factory.mktemp("theirs"))
    return CertificateFiles(certificate=certificate, key=key)


class Peers:
    """A server of one transport, and channels of the other one or the same."""

    def __init__(self, served, called):
        self._served, self._called = served, called
        self._servers, self._channels = [], []

    def _failed(self, name, error):
        raise AssertionError(name) from error

    async def serve(self, tls, host=HOST):
        def echo(call):
            return ServerCallbacks(on_message=call.send, on_half_close=call.finish)

        async def reverse(request, _call):
            return request[::-1]

        server = make_server(host, 0, self._served, self._failed, tls=tls)
        server.methods.add_stream(STREAM, echo)
        server.methods.add_unary(UNARY, reverse, deserialize=bytes, serialize=bytes)
        await server.start()
        self._servers.append(server)
        return server.address

    def channel(self, address, tls):
        made = open_channel(address, self._called, self._failed, tls=tls)
        self._channels.append(made)
        return made

    async def close(self):
        for channel in self._channels:
            await channel.close()
        for server in self._servers:
            await server.stop(drain_s=0)


@pytest.fixture(params=HopTransport, ids=lambda transport: f"server-{transport}")
def served(request):
    return request.param


@pytest.fixture(params=HopTransport, ids=lambda transport: f"client-{transport}")
def called(request):
    return request.param


@pytest.fixture
async def peers(served, called):
    made = Peers(served, called)
    yield made
    await made.close()


async def ask(channel):
    return await channel.unary(UNARY, b"abc", serialize=bytes, deserialize=bytes, timeout_s=CALL_S)


async def refused(channel):
    with pytest.raises(RpcError) as caught:
        await ask(channel)
    assert caught.value.code is StatusCode.UNAVAILABLE
    assert caught.value.details


async def test_calls_and_streams(peers, ours):
    address = await peers.serve(ServerTls(shown=ours))
    channel = peers.channel(address, ClientTls(trusted=ours.certificate))
    assert await ask(channel) == b"cba"
    received, ended = [], asyncio.get_running_loop().create_future()
    call = channel.stream(
        STREAM,
        on_message=lambda message: received.append(bytes(message)),
        on_end=ended.set_result,
    )
    call.send(LARGE)
    call.send([b"a", b"b"])
    call.half_close()
    async with asyncio.timeout(CALL_S):
        assert (await ended).code is StatusCode.OK
    assert received == [LARGE, b"ab"]


async def test_clients_are_known_by_their_certificates(peers, ours, theirs):
    address = await peers.serve(ServerTls(shown=ours, trusted=theirs.certificate))
    trusted = ours.certificate
    assert await ask(peers.channel(address, ClientTls(trusted=trusted, shown=theirs))) == b"cba"
    await refused(peers.channel(address, ClientTls(trusted=trusted)))
    await refused(peers.channel(address, ClientTls(trusted=trusted, shown=ours)))
    assert await ask(peers.channel(address, ClientTls(trusted=trusted, shown=theirs))) == b"cba"


async def test_a_server_that_is_not_trusted_gets_no_call(peers, ours, theirs):
    address = await peers.serve(ServerTls(shown=ours))
    await refused(peers.channel(address, ClientTls(trusted=theirs.certificate)))


async def test_a_certificate_has_to_name_the_host(peers, ours):
    address = await peers.serve(ServerTls(shown=ours), NOT_NAMED)
    await refused(peers.channel(address, ClientTls(trusted=ours.certificate)))


async def test_nobody_talks_plain_with_tls(peers, ours):
    served = await peers.serve(ServerTls(shown=ours))
    await refused(peers.channel(served, None))
    plain = await peers.serve(None)
    await refused(peers.channel(plain, ClientTls(trusted=ours.certificate)))
    assert await ask(peers.channel(served, ClientTls(trusted=ours.certificate))) == b"cba"
