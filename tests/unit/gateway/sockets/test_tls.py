"""Real handshakes: versions, clients' certificates, and certificates that change."""

import asyncio
import contextlib
import os
import shutil
import ssl
from dataclasses import replace

import pytest

from highwater.gateway.login.principal_rules import PrincipalRules
from highwater.gateway.sockets.tls import ClientAuth, TlsContext, TlsFiles
from highwater.model.authorization import ANONYMOUS, Principal
from highwater.model.errors import ConfigError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState
from tests.support.certificates import make_certificate
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.core.session_world import PRODUCE, request


class Log:
    """Keeps every line."""

    def __init__(self):
        self.lines = []

    def __getattr__(self, _level):
        return lambda event, **values: self.lines.append((event, values))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Two that do not know of each other."""
    return [make_certificate(tmp_path_factory.mktemp(name)) for name in ("one", "two")]


def files(certificate, **more):
    cert, key = certificate
    return TlsFiles(cert_file=str(cert), key_file=str(key), **more)


def trusting(certificate, shown=None):
    context = ssl.create_default_context(cafile=str(certificate[0]))
    if shown is not None:
        context.load_cert_chain(*shown)
    return context


@contextlib.asynccontextmanager
async def client(world, context):
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", world.port, ssl=context, server_hostname="localhost"
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def test_requests_and_replies_of_any_size(world, certificates):
    await world.listen(tls=TlsContext(files(certificates[0])))
    async with client(world, trusting(certificates[0])) as (reader, writer):
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
        writer.write(request(PRODUCE, 1) + request(PRODUCE, 2, 200_000) + request(PRODUCE, 3))
        assert await reader.readexactly(6) == b"1;2;3;"
        (connection,) = world.listener.connections
        assert connection.client.requester.principal == ANONYMOUS
        shown = {"listener/default": certificates[0][0].read_bytes()}
        assert world.listener.certificates == shown
        await until(lambda: connection.at_rest)
    await until(lambda: not world.listener.connections)


async def test_version_1_2_is_the_oldest(world, certificates):
    tls = TlsContext(files(certificates[0]))
    assert tls.context.minimum_version is ssl.TLSVersion.TLSv1_2
    await world.listen(tls=tls)
    context = trusting(certificates[0])
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with client(world, context) as (reader, writer):
        writer.write(request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;"


@pytest.mark.parametrize("only", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_one_version_alone(world, certificates, only, newest):
    await world.listen(tls=TlsContext(files(certificates[0], enabled_protocols=(only,))))
    context = trusting(certificates[0])
    context.maximum_version = newest
    if (only, newest) == ("TLSv1.3", ssl.TLSVersion.TLSv1_2):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with client(world, context):
                pass
        return
    async with client(world, context) as (_, writer):
        assert writer.get_extra_info("ssl_object").version() == only


async def test_clients_without_tls_get_nothing_and_do_not_stay(world, certificates):
    await world.listen(tls=TlsContext(files(certificates[0])), connections_max=1)
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(request(PRODUCE, 1))
    with contextlib.suppress(ConnectionError):
        assert b"1;" not in await reader.read()
    writer.close()
    assert world.handler.peers == []


async def test_a_client_is_named_by_its_certificate(world, certificates):
    mine, theirs = certificates
    tls = TlsContext(files(mine, client_ca_file=str(theirs[0]), client_auth=ClientAuth.REQUIRED))
    rules = PrincipalRules(("RULE:^CN=(.*)$/user-$1/",))
    await world.listen(tls=tls, principal_rules=rules)
    async with client(world, trusting(mine, theirs)) as (reader, writer):
        writer.write(request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;"
        (connection,) = world.listener.connections
        assert connection.client.requester.principal == Principal("User", "user-localhost")


@pytest.mark.parametrize("takes", [True, False])
async def test_a_certificate_names_users_of_an_instance_that_says_so(world, certificates, takes):
    mine, theirs = certificates
    tls = TlsContext(files(mine, client_ca_file=str(theirs[0]), client_auth=ClientAuth.REQUIRED))
    await world.listen(tls=tls)
    shop = InstanceState(instance=InstanceId("shop"), certificates=takes)
    world.listener.doors.follow({shop.instance: shop})
    world.port = await world.listener.open_port("default", shop.instance, None, 0)
    async with client(world, trusting(mine, theirs)) as (reader, writer):
        writer.write(request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;"
        (connection,) = world.listener.connections
        named = Principal("User", "CN=localhost")
        assert connection.client.requester.principal == (named if takes else ANONYMOUS)
        world.listener.doors.follow({shop.instance: replace(shop, certificates=False)})
        assert connection.closed is takes, "who had a name by it comes in again without one"


async def test_a_failed_handshake_is_told_with_the_client_s_address(world, certificates):
    log = Log()
    await world.listen(tls=TlsContext(files(certificates[0])), log=log)
    _, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(request(PRODUCE, 1))
    writer.close()
    await until(lambda: world.listener.newcomers.failed_handshakes == 1)
    (values,) = [values for event, values in log.lines if event == "handshake_failed"]
    assert (values["host"], values["instance"]) == ("127.0.0.1", DEFAULT_INSTANCE)


@pytest.mark.parametrize(
    ("auth", "shows", "served"),
    [
        (ClientAuth.REQUIRED, False, False),
        (ClientAuth.REQUESTED, False, True),
        (ClientAuth.REQUESTED, True, False),
        (ClientAuth.NONE, True, True),
    ],
)
async def test_certificates_that_are_missing_or_of_a_stranger(
    world, certificates, auth, shows, served
):
    mine, strangers = certificates
    tls = TlsContext(files(mine, client_ca_file=str(mine[0]), client_auth=auth))
    await world.listen(tls=tls)
    context = trusting(mine, strangers if shows else None)
    try:
        async with client(world, context) as (reader, writer):
            writer.write(request(PRODUCE, 1))
            answer = await reader.read(2)
    except (ssl.SSLError, ConnectionError):
        answer = b""
    assert (answer == b"1;") is served


async def test_a_name_that_no_rule_makes_closes_the_connection(world, certificates):
    mine, theirs = certificates
    tls = TlsContext(files(mine, client_ca_file=str(theirs[0]), client_auth=ClientAuth.REQUIRED))
    await world.listen(tls=tls, principal_rules=PrincipalRules(("RULE:^O=x$/x/",)))
    async with client(world, trusting(mine, theirs)) as (reader, writer):
        writer.write(request(PRODUCE, 1))
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            assert await reader.read(2) == b""
    assert world.handler.peers == []


async def test_a_certificate_makes_nobody_anonymous(world, certificates):
    """`User:ANONYMOUS` may be a super user: those of a listener that only operators reach."""
    mine, theirs = certificates
    tls = TlsContext(files(mine, client_ca_file=str(theirs[0]), client_auth=ClientAuth.REQUIRED))
    await world.listen(tls=tls, principal_rules=PrincipalRules(("RULE:^CN=.*$/ANONYMOUS/",)))
    async with client(world, trusting(mine, theirs)) as (reader, writer):
        writer.write(request(PRODUCE, 1))
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            assert await reader.read(2) == b""
    assert world.handler.peers == []


async def test_a_new_certificate_is_used_from_the_next_handshake_on(world, certificates, tmp_path):
    first, second = certificates
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    for source, path in zip(first, paths, strict=True):
        shutil.copy(source, path)
    await world.listen(tls=TlsContext(files(paths)))
    async with client(world, trusting(first)) as (reader, writer):
        for source, path in zip(second, paths, strict=True):
            shutil.copy(source, path)
        async with asyncio.timeout(10):
            while not await connects(world, trusting(second)):
                await asyncio.sleep(0.05)
        writer.write(request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;", "connections go on"


async def connects(world, context):
    try:
        async with client(world, context):
            return True
    except ssl.SSLError:
        return False


def test_files_that_cannot_be_used(certificates, tmp_path):
    (cert, key), (_, other_key) = certificates
    with pytest.raises(ConfigError, match="cannot be used"):
        TlsContext(files((cert, other_key)))
    with pytest.raises(ConfigError, match="No such file"):
        TlsContext(files((cert, tmp_path / "no.pem")))
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    with pytest.raises(ConfigError, match="cannot be used"):
        TlsContext(files((broken, key)))


def test_a_missing_file_is_told_once(certificates, tmp_path):
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    for source, path in zip(certificates[0], paths, strict=True):
        shutil.copy(source, path)
    tls = TlsContext(files(paths))
    paths[1].unlink()
    with pytest.raises(ConfigError, match="No such file"):
        tls.reload()
    assert not tls.reload(), "it is told once"
    paths[0].unlink()
    with pytest.raises(ConfigError, match=r"cert\.pem: No such file"):
        tls.reload()
    assert not tls.reload()
    for source, path in zip(certificates[1], paths, strict=True):
        shutil.copy(source, path)
    assert tls.reload()


def test_a_pair_that_does_not_fit_changes_nothing(certificates, tmp_path):
    first, second = certificates
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    for source, path in zip(first, paths, strict=True):
        shutil.copy(source, path)
    tls = TlsContext(files(paths))
    assert not tls.reload()
    shutil.copy(second[0], paths[0])
    os.utime(paths[0], (1, 1))
    with pytest.raises(ConfigError, match="cannot be used"):
        tls.reload()
    assert not tls.reload(), "it is told once"
    assert tls.shown == first[0].read_bytes(), "the former one is in use"
    shutil.copy(second[1], paths[1])
    os.utime(paths[1], (2, 2))
    assert tls.reload()
    assert tls.shown == second[0].read_bytes()
