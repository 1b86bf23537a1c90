"""The proxy delays and cuts as its seed says, and otherwise passes every byte."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support import faulty_proxy
from tests.support.faulty_proxy import CUT_BYTES, DELAY_S_MAX, PIECE_BYTES_MAX, FaultyProxy, Plan
from tests.support.process import free_port_block, wait_until

_HOST = "127.0.0.1"
_TIMEOUT_S = 20.0
_DATA = random.Random(1).randbytes(1 << 20)


@pytest.fixture
def echo() -> Iterator[socket.socket]:
    """A server that sends back what it gets, of one connection after the other."""
    with socket.create_server((_HOST, 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        while data := connection.recv(65_536):
                            connection.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server
        with contextlib.suppress(OSError):  # Closed already.
            server.shutdown(socket.SHUT_RDWR)
        thread.join(_TIMEOUT_S)


@pytest.fixture
def proxy(echo: socket.socket) -> Iterator[FaultyProxy]:
    made = FaultyProxy({(_HOST, free_port_block(1)): echo.getsockname()})
    made.start()
    yield made
    made.stop()


def echoed(proxy: FaultyProxy, data: bytes) -> bytes:
    """What comes back through the proxy, until the end of the connection."""
    (address,) = proxy.addresses
    got = bytearray()
    with socket.create_connection(address, timeout=_TIMEOUT_S) as client:

        def send() -> None:
            with contextlib.suppress(OSError):
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        with contextlib.suppress(ConnectionResetError):
            while piece := client.recv(65_536):
                got += piece
        sender.join(_TIMEOUT_S)
    return bytes(got)


def test_everything_passes_a_calm_proxy(proxy: FaultyProxy) -> None:
    assert echoed(proxy, _DATA) == _DATA
    proxy.disturb(1)
    proxy.calm()
    assert echoed(proxy, _DATA) == _DATA
    assert (proxy.connections, proxy.cuts, proxy.delays) == (2, 0, 0)


def test_connections_are_cut_where_the_seed_says(
    proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faulty_proxy, "DELAY_S_MAX", 0.001)
    monkeypatch.setattr(faulty_proxy, "CUT_BYTES", (1_000, 100_000))
    proxy.disturb(7)
    for number in range(1, 9):
        got = echoed(proxy, _DATA)
        assert got == _DATA[: len(got)], "nothing is changed or left out"
        (number_cut, direction, passed) = proxy.last_cuts[-1]
        assert number_cut == number
        assert passed == Plan(7, number, direction).cut_at
        assert len(got) <= passed
    assert proxy.cuts >= 8, "both directions may reach their ends together"
    assert proxy.delays > 0


def test_a_plan_follows_from_its_seed() -> None:
    def told(plan: Plan) -> object:
        return plan.cut_at, plan.resets, list(itertools.islice(plan.pieces(), 50))

    assert told(Plan(3, 1, "there")) == told(Plan(3, 1, "there"))
    others = [Plan(4, 1, "there"), Plan(3, 2, "there"), Plan(3, 1, "back")]
    assert all(told(plan) != told(Plan(3, 1, "there")) for plan in others)


def test_plans_keep_their_limits() -> None:
    for number in range(200):
        plan = Plan(5, number, "there")
        assert CUT_BYTES[0] <= plan.cut_at <= CUT_BYTES[1]
        for piece in itertools.islice(plan.pieces(), 20):
            assert 1 <= piece.size <= PIECE_BYTES_MAX
            assert 0 <= piece.delay_s <= DELAY_S_MAX


def test_who_connects_to_nobody_is_closed(proxy: FaultyProxy, echo: socket.socket) -> None:
    echo.shutdown(socket.SHUT_RDWR)
    assert echoed(proxy, b"is anybody there?") == b""


def test_connections_have_a_limit(proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faulty_proxy, "CONNECTIONS_MAX", 1)
    (address,) = proxy.addresses
    with socket.create_connection(address, timeout=_TIMEOUT_S) as first:
        first.sendall(b"a")
        assert first.recv(1) == b"a"
        assert echoed(proxy, b"b") == b""
        wait_until(lambda: proxy.refused == 1, timeout_s=5, what="a refusal")


def test_an_address_that_is_taken_is_an_error(proxy: FaultyProxy) -> None:
    other = FaultyProxy(dict.fromkeys(proxy.addresses, (_HOST, 1)))
    with pytest.raises(OSError, match="in use"):
        other.start()
    other.stop()
