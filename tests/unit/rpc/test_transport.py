import asyncio
import gc
import ssl
import sys

import pytest

from highwater.http2.abuse import AbuseLimits
from highwater.http2.frames import PREFACE, SETTINGS_ACK, frame, ping_frame, settings_frame
from highwater.http2.settings import LocalSettings
from highwater.rpc.peer_memory import PeerMemory
from highwater.rpc.transport import CONTROL_BYTES_MAX, JOIN_BYTES_MAX, Keepalive, Transport
from tests.support.http2_wire import REQUEST, Heard, frames_of

BEGIN = PREFACE + settings_frame([]) + SETTINGS_ACK


class FakeSocket:
    """The loop's transport."""

    def __init__(self, tls=None):
        self.writes = []
        self.closed = self.aborted = False
        self.tls = tls
        self.on_write = lambda: None

    def get_extra_info(self, name):
        return {"ssl_object": self.tls, "peername": ("127.0.0.1", 1)}.get(name)

    def set_write_buffer_limits(self, high, low):
        assert low < high

    def is_closing(self):
        return self.closed or self.aborted

    def write(self, data):
        if self.is_closing():
            raise RuntimeError("the handler is closed")  # As uvloop does.
        self.writes.append(bytes(data))
        self.on_write()

    def writelines(self, parts):
        self.writes.append([bytes(part) for part in parts])
        self.on_write()

    def close(self):
        self.closed = True

    def abort(self):
        self.aborted = True


class Tls:
    def __init__(self, protocol):
        self.protocol = protocol

    def selected_alpn_protocol(self):
        return self.protocol


class Owner:
    """Of a client's or a server's connection."""

    def __init__(self):
        self.events = []

    def __getattr__(self, name):
        return lambda *args, **_: self.events.append((name, *args))

    @property
    def names(self):
        return [event[0] for event in self.events]


@pytest.fixture
def failures():
    return []


@pytest.fixture
async def make(failures):
    def make(*, client=True, tls=None, keepalive=None):
        owner, fake = Owner(), FakeSocket(tls)
        transport = Transport(
            owner,
            client=client,
            loop=asyncio.get_running_loop(),
            settings=LocalSettings(),
            limits=AbuseLimits(),
            keepalive=keepalive or Keepalive(),
            memory=PeerMemory(),
            on_failure=lambda name, error: failures.append((name, error)),
        )
        transport.connection_made(fake)
        made.append(transport)
        return transport, owner, fake

    made = []
    yield make
    for transport in made:
        transport.connection_lost(None)


def receive(transport, data):
    buffer = transport.get_buffer(-1)
    buffer[: len(data)] = data
    transport.buffer_updated(len(data))


def opened(transport):
    heard = Heard()
    stream = transport.http2.open_stream(heard, list(REQUEST))
    transport.http2.adopt(stream, heard, heard)
    return stream, heard


async def test_the_beginning_is_one_write(make):
    transport, owner, fake = make()
    assert fake.writes == []
    await asyncio.sleep(0)
    assert len(fake.writes) == 1
    assert fake.writes[0].startswith(PREFACE)
    assert owner.names == ["on_connected"]
    assert "127.0.0.1" in transport.peer


async def test_what_gathers_in_a_turn_leaves_at_its_end(make):
    transport, _, fake = make()
    await asyncio.sleep(0)
    fake.writes.clear()
    stream, _ = opened(transport)
    for _ in range(10):
        stream.send(b"head", [b"part"], 8)
    assert fake.writes == []
    await asyncio.sleep(0)
    assert len(fake.writes) == 1


async def test_answers_to_a_read_leave_with_it(make):
    transport, _, fake = make()
    await asyncio.sleep(0)
    fake.writes.clear()
    receive(transport, settings_frame([]) + ping_frame(b"12345678") + ping_frame(b"abcdefgh"))
    assert len(fake.writes) == 1
    assert len(list(frames_of(fake.writes[0]))) == 3


async def test_long_output_is_not_joined(make):
    transport, _, fake = make()
    receive(transport, settings_frame([]) + b"\0\0\x04\x08\0\0\0\0\0\0\x0f\0\0")
    fake.writes.clear()
    stream, _ = opened(transport)
    stream.send(b"", [bytes(JOIN_BYTES_MAX), bytes(9)], JOIN_BYTES_MAX + 9)
    await asyncio.sleep(0)
    assert isinstance(fake.writes[0], list)


async def test_a_full_socket_is_waited_for(make):
    transport, _, fake = make()
    await asyncio.sleep(0)
    fake.writes.clear()
    stream, _ = opened(transport)
    transport.pause_writing()
    stream.send(b"x", [], 1)
    receive(transport, settings_frame([]))
    await asyncio.sleep(0)
    assert fake.writes == []
    transport.resume_writing()
    assert len(fake.writes) == 1


async def test_a_socket_that_becomes_full_gets_no_more(make):
    transport, _, fake = make()
    receive(transport, settings_frame([(4, 1 << 30)]) + b"\0\0\x04\x08\0\0\0\0\0\x3f\0\0\0")
    stream, heard = opened(transport)
    await asyncio.sleep(0)
    fake.writes.clear()
    fake.on_write = transport.pause_writing
    stream.send(b"", [bytes(20 << 20)], 20 << 20)
    assert not stream.can_send()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(fake.writes) == 1
    unsent = stream.unsent_bytes
    assert unsent > 10 << 20
    fake.on_write = lambda: None
    transport.resume_writing()
    for _ in range(10):
        await asyncio.sleep(0)
    assert stream.unsent_bytes == 0
    assert heard.writable == 1


async def test_a_peer_that_only_asks_and_never_reads_is_given_up(make):
    transport, _, fake = make(client=False)
    receive(transport, BEGIN)
    transport.pause_writing()
    for _ in range(CONTROL_BYTES_MAX // len(ping_frame(b"12345678"))):
        transport.http2.ping(b"12345678")
    assert not fake.aborted
    receive(transport, ping_frame(b"12345678"))
    assert fake.aborted


async def test_payload_that_waits_for_the_socket_is_no_reason_to_give_a_peer_up(make):
    transport, _, fake = make()
    receive(transport, settings_frame([(4, 1 << 30)]) + b"\0\0\x04\x08\0\0\0\0\0\x3f\0\0\0")
    stream, _ = opened(transport)
    transport.pause_writing()
    stream.send(b"", [bytes(40 << 20)], 40 << 20)
    assert transport.http2.output.nbytes >= CONTROL_BYTES_MAX
    receive(transport, ping_frame(b"12345678"))
    assert not fake.aborted


async def test_tls_without_alpn_is_refused(make):
    _, owner, fake = make(tls=Tls(None))
    assert fake.aborted
    assert owner.names == []
    _, owner, fake = make(tls=Tls("h2"))
    assert not fake.aborted
    assert owner.names == ["on_connected"]


async def test_a_silent_peer_is_asked_and_given_up(make):
    transport, owner, fake = make(
        keepalive=Keepalive(interval_s=0.03, timeout_s=0.05, settings_s=0.02)
    )
    receive(transport, settings_frame([]))
    fake.writes.clear()
    await asyncio.sleep(0.07)
    assert [kind for write in fake.writes for kind, *_ in frames_of(write)] == [6]
    assert not fake.aborted
    await asyncio.sleep(0.1)
    assert fake.aborted
    transport.connection_lost(None)
    assert owner.events[-1] == ("on_lost", "the peer does not answer (keepalive)")


async def test_a_peer_that_answers_stays(make):
    keepalive = Keepalive(interval_s=0.02, timeout_s=0.05, settings_s=0.01)
    transport, _, fake = make(keepalive=keepalive)
    receive(transport, settings_frame([]))
    for _ in range(10):
        await asyncio.sleep(0.02)
        receive(transport, ping_frame(b"keepaliv", ack=True))
    assert not fake.aborted


async def test_a_peer_without_settings_is_given_up(make):
    _, _, fake = make(keepalive=Keepalive(settings_s=0.02))
    await asyncio.sleep(0.1)
    assert fake.aborted


async def test_close_sends_what_is_there_and_does_not_wait_for_ever(make, monkeypatch):
    monkeypatch.setattr("highwater.rpc.transport.CLOSE_TIMEOUT_S", 0.02)
    transport, _, fake = make()
    transport.close("enough")
    transport.close("again")
    assert fake.closed
    assert len(fake.writes) == 1
    assert not fake.aborted
    await asyncio.sleep(0.1)
    assert fake.aborted


async def test_a_lost_connection_ends_streams_and_is_told_once(make):
    transport, owner, _ = make()
    _, heard = opened(transport)
    transport.connection_lost(OSError("reset"))
    transport.connection_lost(None)
    assert heard.events == [("lost", False)]
    assert owner.names.count("on_lost") == 1
    assert "reset" in owner.events[-1][1]


async def test_nothing_is_written_between_a_failure_and_the_end(make):
    transport, _, fake = make()
    await asyncio.sleep(0)
    fake.writes.clear()
    _, heard = opened(transport)
    fake.aborted = True  # The loop has met an error.
    transport.flush()
    transport.close("enough")
    assert fake.writes == []
    transport.connection_lost(BrokenPipeError())
    assert heard.events == [("lost", False)]


async def test_the_read_buffer_of_a_lost_connection_is_free_at_once(make):
    transport, _, _ = make()
    receive(transport, settings_frame([])[:5])
    buffer = transport.get_buffer(-1).obj
    gc.disable()
    try:
        transport.connection_lost(None)
        assert sys.getrefcount(buffer) == 2, "this name, and the call's argument"
    finally:
        gc.enable()


async def test_a_bug_of_ours_costs_the_connection_and_is_reported(make, failures):
    transport, _, fake = make(client=False)

    def fail(_nbytes, _now_s):
        raise ZeroDivisionError

    transport.http2.buffer_updated = fail
    receive(transport, frame(6, 0, 0, bytes(8)))
    assert fake.aborted
    assert [type(error) for _, error in failures] == [ZeroDivisionError]


def test_the_default_keepalive_is_that_of_all_our_connections():
    assert (Keepalive().interval_s, Keepalive().timeout_s) == (10, 5)


async def test_the_end_of_the_peers_side_closes(make):
    transport, _, _ = make()
    assert transport.eof_received() is False


def test_ssl_objects_have_what_is_asked():
    assert hasattr(ssl.SSLObject, "selected_alpn_protocol")
