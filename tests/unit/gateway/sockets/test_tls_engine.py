"""A real client and an engine, byte by byte."""

import ssl

import pytest

from highwater.gateway.sockets.tls_engine import TlsEngine
from tests.support.certificates import make_certificate, tls_contexts
from tests.unit.gateway.sockets.tls_world import TlsPeer

RECORD = 16 * 1024


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    return tls_contexts(make_certificate(tmp_path_factory.mktemp("tls")))


@pytest.fixture
def ends(contexts):
    engine, peer = TlsEngine(contexts[0]), TlsPeer(contexts[1])
    peer.shake_hands(engine)
    return engine, peer


def read(engine, room=1 << 20):
    buffer = bytearray(room)
    return bytes(buffer[: engine.read_into(memoryview(buffer))])


def test_a_handshake_that_comes_in_single_bytes(contexts):
    engine, peer = TlsEngine(contexts[0]), TlsPeer(contexts[1])
    peer.shake_hands(engine, at_most=1)
    engine.receive(peer.send(b"hello"))
    assert read(engine) == b"hello"
    assert peer.receive(engine.encrypt(b"answer")) == b"answer"


def test_a_handshake_that_fails_leaves_an_alert(contexts):
    engine = TlsEngine(contexts[0])
    engine.receive(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ssl.SSLError):
        engine.handshake()
    stranger = TlsEngine(contexts[0])
    peer = TlsPeer(ssl.create_default_context())
    with pytest.raises(ssl.SSLError, match="verify failed"):
        peer.shake_hands(stranger)
    stranger.receive(peer.outgoing.read())
    with pytest.raises(ssl.SSLError, match="unknown ca"):
        stranger.handshake()


def test_a_buffer_is_filled_from_many_records(ends):
    engine, peer = ends
    sent = [bytes([number]) * 1000 for number in range(50)]
    engine.receive(b"".join(peer.send(data) for data in sent))
    assert read(engine, 2500) == b"".join(sent)[:2500]
    assert engine.unread
    assert read(engine) == b"".join(sent)[2500:]
    assert not engine.unread


def test_half_a_record_is_nothing_yet(ends):
    engine, peer = ends
    record = peer.send(b"x" * RECORD)
    engine.receive(record[:9000])
    assert read(engine) == b""
    engine.receive(record[9000:])
    assert read(engine) == b"x" * RECORD


def test_large_data_are_many_records(ends):
    engine, peer = ends
    data = bytes(range(256)) * 1024
    assert peer.receive(engine.encrypt(memoryview(data))) == data
    assert engine.take() == b""


def test_a_client_that_sends_no_more_may_still_read(ends):
    engine, peer = ends
    engine.receive(peer.send(b"last") + peer.say_goodbye())
    assert read(engine) == b"last"
    assert engine.ended
    peer.incoming.write(engine.encrypt(b"answer"))
    assert peer.ssl.read(100) == b"answer"


def test_bytes_that_were_changed(ends):
    engine, peer = ends
    record = bytearray(peer.send(b"x" * 100))
    record[50] ^= 1
    engine.receive(record)
    with pytest.raises(ssl.SSLError, match=r"(?i)bad.record.mac"):
        read(engine)
    with pytest.raises(ssl.SSLError):
        peer.receive(engine.take())


def test_a_key_update_is_answered_by_the_next_bytes(ends):
    engine, peer = ends
    engine.receive(peer.send(b"one") + peer.update_keys() + peer.send(b"two"))
    assert read(engine) == b"onetwo"
    assert peer.receive(engine.take() + engine.encrypt(b"three")) == b"three"
    engine.receive(peer.send(b"four"))
    assert read(engine) == b"four"


def test_farewell(ends):
    engine, peer = ends
    peer.receive(engine.farewell())
    assert peer.ended
    assert engine.farewell() == b"", "it is said once"
