import ssl

import pytest

from highwater.model.errors import UsageError
from highwater.rpc.channel import Channel
from highwater.rpc.errors import RpcError
from highwater.rpc.tls import CertificateFiles, ClientTls, ServerTls
from highwater.runtime import reloaded_files
from tests.support.certificates import lock_key, make_authority, make_certificate
from tests.support.rpc_demo import Demo, start_demo, unary


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    certificate, key = make_certificate(tmp_path_factory.mktemp("tls"))
    return CertificateFiles(certificate=certificate, key=key)


def test_clients_check_the_peer_and_its_name(files):
    tls = ClientTls(trusted=files.certificate)
    assert (tls.context.verify_mode, tls.context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(tls.context.get_ca_certs()) == 1, "and none of the machine's"
    assert (tls.trusted, tls.shown) == (files.certificate.read_bytes(), None)


def test_servers_ask_for_a_certificate_if_they_know_whom_to_trust(files):
    assert ServerTls(shown=files).context.verify_mode is ssl.CERT_NONE
    tls = ServerTls(shown=files, trusted=files.certificate)
    assert tls.context.verify_mode is ssl.CERT_REQUIRED
    assert tls.trusted == files.certificate.read_bytes()


def test_nobody_is_served_below_tls_1_2(files):
    for tls in (ServerTls(shown=files), ClientTls(trusted=files.certificate)):
        assert tls.context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_keys_are_not_told(files):
    tls = ClientTls(trusted=files.certificate, shown=files)
    assert tls.shown.key == files.key.read_bytes()
    assert "PRIVATE" not in repr(tls.shown)


def test_files_that_are_not_what_they_should_be(files, tmp_path):
    text = tmp_path / "text.pem"
    text.write_text("nothing\n")
    absent = tmp_path / "absent.pem"
    with pytest.raises(UsageError, match=rf"cannot read {absent}: No such file"):
        ClientTls(trusted=absent)
    with pytest.raises(UsageError, match=rf"{text} holds no certificates"):
        ClientTls(trusted=text)
    with pytest.raises(UsageError, match=rf"cannot read {absent}"):
        ServerTls(shown=CertificateFiles(certificate=files.certificate, key=absent))
    with pytest.raises(UsageError, match="are no certificate and its key"):
        ServerTls(shown=CertificateFiles(certificate=text, key=files.key))
    with pytest.raises(UsageError, match="holds no certificates"):
        ServerTls(shown=files, trusted=text)
    _, others = make_certificate(tmp_path)
    with pytest.raises(UsageError, match="are no certificate and its key"):
        ClientTls(
            trusted=files.certificate,
            shown=CertificateFiles(certificate=files.certificate, key=others),
        )


def test_the_password_of_a_key_is_not_asked_for(files, tmp_path):
    locked = tmp_path / "locked.pem"
    lock_key(files.key, locked, b"abcd")
    with pytest.raises(UsageError, match="are no certificate and its key"):
        ServerTls(shown=CertificateFiles(certificate=files.certificate, key=locked))


async def test_certificates_are_read_again_for_new_connections(tmp_path, monkeypatch):
    monkeypatch.setattr(reloaded_files, "LOOK_S", 0.0)
    before, after = (make_authority(tmp_path / name) for name in ("before", "after"))
    trusted, place = tmp_path / "trusted.pem", tmp_path / "pair"
    cert, key = before.issue("server", place)
    trusted.write_bytes(before.certificate.read_bytes())
    shown = CertificateFiles(certificate=cert, key=key)
    failures = []
    served = ServerTls(shown=shown, trusted=trusted, on_failure=failures.append)
    called = ClientTls(shown=shown, trusted=trusted, on_failure=failures.append)
    server = await start_demo(Demo(), tls=lambda: served.context)

    async def ask():
        channel = Channel(server.address, tls=lambda: called.context)
        try:
            return await unary(channel, "Reverse", b"ab")
        finally:
            await channel.close()

    lasting = Channel(server.address, tls=lambda: called.context)
    assert await unary(lasting, "Reverse", b"ab") == await ask() == b"ba"
    old = ClientTls(trusted=before.certificate, shown=CertificateFiles(certificate=cert, key=key))
    key.write_text("half of a new pair\n")
    assert await ask() == b"ba", "the former pair stays"
    assert len(failures) == 2
    after.issue("server", place)
    trusted.write_bytes(after.certificate.read_bytes())
    assert await ask() == b"ba"
    assert await unary(lasting, "Reverse", b"ab") == b"ba", "connections stay"
    assert (served.generation, called.generation) == (1, 1)
    assert served.trusted == after.certificate.read_bytes()
    stranger = Channel(server.address, tls=old.loaded.context)
    with pytest.raises(RpcError):
        await unary(stranger, "Reverse", b"ab")
    for channel in (lasting, stranger):
        await channel.close()
    await server.stop(drain_s=0)
