"""Clients that never log in, log in slowly, or never end a handshake, beside one that does log in."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from highwater.kafka.messages.metadata import MetadataRequest
from highwater.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from highwater.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.robustness.fuzz.floods import connections, send_slowly
from tests.robustness.fuzz.guarded import HOST, GoodLogins, Guarded, start_guarded
from tests.robustness.fuzz.login_frames import GUESS
from tests.robustness.fuzz.watch import MemoryWatch
from tests.support.embedded_cluster import raise_open_files_limit
from tests.support.raw_login import AUTHENTICATE_VERSION, HANDSHAKE_VERSION, plain
from tests.support.wire import request_frame

_CONNECTIONS_MAX = 1_000
_FLOOD = 400
_SHAKERS = 4
_LOGIN_S = 6.0
_MEMORY_BYTES = 64 << 20
_CLOSED_WITHIN_S = 60.0
"""Behind a time limit, on a machine with other work."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    raise_open_files_limit(16_384)
    directory: Path = tmp_path_factory.mktemp("floods")
    made = start_guarded(
        directory, login_s_max=str(_LOGIN_S), connections_max=str(_CONNECTIONS_MAX)
    )
    yield made
    complaints = made.cluster.complaints()
    made.cluster.stop()
    assert complaints == []


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """How long a flood lasts."""
    chosen: float = request.config.getoption("--flood-seconds")
    return chosen


def _await_end(sockets: Sequence[socket.socket]) -> None:
    """Returns once the broker has closed all of them."""
    deadline = time.monotonic() + _CLOSED_WITHIN_S
    for one in sockets:
        one.settimeout(max(0.01, deadline - time.monotonic()))
        with contextlib.suppress(ConnectionError):
            while one.recv(65_536):
                pass  # What it says before: an alert of TLS, or an answer.


def test_clients_that_never_speak(guarded: Guarded) -> None:
    """The time limit of a login ends them, long before an idle connection's would."""
    with (
        GoodLogins(guarded),
        MemoryWatch(guarded.cluster, budget_bytes=_MEMORY_BYTES),
        connections(HOST, guarded.plain_port, _FLOOD) as opened,
    ):
        started = time.monotonic()
        _await_end(opened)
        assert time.monotonic() - started > _LOGIN_S / 2
    guarded.check_good_logins()


@pytest.mark.full
def test_slow_logins(guarded: Guarded) -> None:
    """A login that goes on, byte by byte, and is not complete in time."""
    frames = request_frame(SaslHandshakeRequest("PLAIN"), HANDSHAKE_VERSION, 1)
    token = plain("alice", GUESS + "x" * 60)
    frames += request_frame(SaslAuthenticateRequest(token), AUTHENTICATE_VERSION, 2)
    with (
        GoodLogins(guarded),
        MemoryWatch(guarded.cluster, budget_bytes=_MEMORY_BYTES),
        connections(HOST, guarded.plain_port, _FLOOD) as opened,
    ):
        send_slowly(opened, frames[:-1], seconds=_LOGIN_S + 2)
        _await_end(opened)
    guarded.check_good_logins()


@pytest.mark.full
def test_large_frames_before_a_login(guarded: Guarded, seconds: float) -> None:
    """64 KiB are the most, and they are not kept longer than a login may take."""
    begun = (64 << 10).to_bytes(4, "big") + bytes((64 << 10) - 1)
    too_large = (64 << 20).to_bytes(4, "big") + b"\x00\x24\x00\x02"
    with (
        GoodLogins(guarded),
        MemoryWatch(guarded.cluster, budget_bytes=_MEMORY_BYTES),
        connections(HOST, guarded.plain_port, _FLOOD) as opened,
    ):
        for one in opened:
            with contextlib.suppress(ConnectionError):
                one.sendall(begun)
        with connections(HOST, guarded.plain_port, 20) as others:
            for one in others:
                one.sendall(too_large)
            started = time.monotonic()
            _await_end(others)
            print(f"frames that are too large ended {time.monotonic() - started:.1f} s later")
        _await_end(opened)
    guarded.check_good_logins()


def test_requests_behind_a_login_that_fails(guarded: Guarded) -> None:
    """Sent in one go: nothing behind the failed token is answered."""
    handshake = request_frame(SaslHandshakeRequest("PLAIN"), HANDSHAKE_VERSION, 1)
    wrong = request_frame(SaslAuthenticateRequest(plain("alice", GUESS)), AUTHENTICATE_VERSION, 2)
    more = b"".join(
        request_frame(SaslAuthenticateRequest(plain("alice", f"{GUESS}{n}")), 2, 3 + n)
        + request_frame(MetadataRequest(), 9, 1_000 + n)
        for n in range(50)
    )
    with connections(HOST, guarded.plain_port, 1) as (one,):
        one.sendall(handshake + wrong + more)
        one.settimeout(_CLOSED_WITHIN_S)
        got = bytearray()
        with contextlib.suppress(ConnectionError):
            while data := one.recv(65_536):
                got += data
    ids = []
    while got:
        size = int.from_bytes(got[:4], "big")
        ids.append(int.from_bytes(got[4:8], "big"))
        del got[: 4 + size]
    assert ids[:2] == [1, 2]
    # One guess for each connection: the second token finds no login under way, and Metadata ends it.
    assert ids[2:] in ([], [3])
    guarded.check_log()


@pytest.mark.full
def test_handshakes_that_never_end(guarded: Guarded) -> None:
    """Of TLS: silent ones, and ones that stop in the middle of what a client says first."""
    hello = _client_hello()
    with (
        GoodLogins(guarded),
        MemoryWatch(guarded.cluster, budget_bytes=_MEMORY_BYTES),
        connections(HOST, guarded.tls_port, _FLOOD // 2) as silent,
        connections(HOST, guarded.tls_port, _FLOOD // 2) as begun,
    ):
        for index, one in enumerate(begun):
            one.sendall(hello[: 1 + index % len(hello)])
        started = time.monotonic()
        _await_end([*silent, *begun])
        assert time.monotonic() - started > 5, "a handshake may take 10 s"
    guarded.check_good_logins()


@pytest.mark.parametrize("lasts_s", [3.0, pytest.param(None, marks=pytest.mark.full)])
def test_a_flood_of_handshakes(guarded: Guarded, seconds: float, lasts_s: float | None) -> None:
    """Complete ones, one behind another, beside others that only begin: each costs the broker a signature."""
    over = threading.Event()
    complete = [0] * _SHAKERS
    hello = _client_hello()

    def shake(number: int) -> None:
        while not over.is_set():
            # The broker may have as many connections as it takes.
            with contextlib.suppress(OSError), guarded.connect(secure=True):
                complete[number] += 1

    def begin() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), connections(HOST, guarded.tls_port, 20) as opened:
                for one in opened:
                    one.sendall(hello)
                over.wait(0.1)

    threads = [threading.Thread(target=shake, args=(number,)) for number in range(_SHAKERS)]
    threads.append(threading.Thread(target=begin))
    with GoodLogins(guarded), MemoryWatch(guarded.cluster, budget_bytes=_MEMORY_BYTES):
        for thread in threads:
            thread.start()
        time.sleep(lasts_s or seconds)
        over.set()
        for thread in threads:
            thread.join()
    assert min(complete) > 0
    print(f"{sum(complete)} handshakes in {lasts_s or seconds} s")
    guarded.check_good_logins()


def test_what_is_no_tls(guarded: Guarded) -> None:
    """Garbage, plain HTTP and Kafka's own requests at a port with TLS."""
    plain_request = request_frame(MetadataRequest(), 9, 1)
    with GoodLogins(guarded), MemoryWatch(guarded.cluster, budget_bytes=_MEMORY_BYTES):
        for kind in (
            b"GET / HTTP/1.1\r\n\r\n",
            plain_request,
            os.urandom(2_000),
            b"\x16\x03\x01\xff\xff" + os.urandom(300),
            b"\x15\x03\x03\x00\x02\x02\x28",
        ):
            with connections(HOST, guarded.tls_port, 40) as opened:
                for one in opened:
                    one.sendall(kind)
                    one.shutdown(socket.SHUT_WR)
                _await_end(opened)
    guarded.check_good_logins()


def _client_hello() -> bytes:
    """What a client of TLS says first."""
    outgoing = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), outgoing, server_hostname="localhost"
    )
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()
