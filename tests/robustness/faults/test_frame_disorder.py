"""Frames come twice, out of order and late as a seed says; none is lost, and TCP puts them right."""

from __future__ import annotations

import contextlib
import math
import random
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support import frame_disorder, node_network
from tests.support.frame_disorder import DELAY_S, HELD_MAX, Disorder
from tests.support.node_network import NodeNetwork
from tests.support.process import accepts_connections, wait_until

_TIMEOUT_S = 20.0
_DATA = random.Random(1).randbytes(2 << 20)
_PORT = 7777
_NODE = 1
_ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)
"""


def passed(disorder: Disorder, count: int, step_s: float = 0.001) -> list[bytes]:
    """What came out, in order, of numbered frames that came one after the other."""
    out: list[bytes] = []
    now_s = 0.0
    for number in range(count):
        out += disorder.due(now_s)
        out += disorder.take(b"%d" % number, now_s)
        now_s += step_s
    while disorder.next_s < math.inf:
        assert disorder.next_s <= now_s + max(DELAY_S)
        out += disorder.due(disorder.next_s)
    return out


def test_no_frame_is_lost_and_none_comes_three_times() -> None:
    disorder = Disorder("7/node1/there")
    out = passed(disorder, 2_000)
    times = Counter(out)
    assert set(times) == {b"%d" % number for number in range(2_000)}
    assert set(times.values()) == {1, 2}
    counts = disorder.counts
    assert counts["frames"] == 2_000
    assert counts["duplicated"] == sum(count == 2 for count in times.values())
    for kind in ("duplicated", "swapped", "delayed"):
        assert 50 < counts[kind] < 150, f"a twentieth is 100: {counts}"
    assert out != sorted(out, key=int), "they change places"


def test_disorder_follows_from_its_seed() -> None:
    assert passed(Disorder("7"), 500) == passed(Disorder("7"), 500)
    assert passed(Disorder("8"), 500) != passed(Disorder("7"), 500)


def test_a_frame_that_nobody_follows_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_disorder, "DELAYED_SHARE", 0.0)
    monkeypatch.setattr(frame_disorder, "SWAPPED_SHARE", 1.0)
    disorder = Disorder("1")
    assert disorder.take(b"a", 5.0) == []
    assert disorder.due(disorder.next_s - 0.001) == []
    assert disorder.due(disorder.next_s) == [b"a"]
    assert disorder.next_s == math.inf
    assert disorder.take(b"b", 6.0) == []
    assert disorder.take(b"c", 6.0) == [b"c", b"b"]
    assert disorder.counts["swapped"] == 1


def test_no_more_frames_are_held_than_the_limit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_disorder, "DELAYED_SHARE", 1.0)
    monkeypatch.setattr(frame_disorder, "DUPLICATED_SHARE", 0.0)
    disorder = Disorder("1")
    out = passed(disorder, HELD_MAX + 10, step_s=0.0)
    assert len(out) == HELD_MAX + 10
    assert (disorder.counts["delayed"], disorder.counts["not held"]) == (HELD_MAX, 10)


@pytest.fixture
def network() -> Iterator[NodeNetwork]:
    """With a node that sends back what it gets."""
    if why := node_network.disorder_missing():
        pytest.skip(why)
    made = NodeNetwork()
    with contextlib.ExitStack() as undo:
        undo.callback(made.stop)
        made.start([_NODE])
        address = made.address(_NODE)
        command = made.command(_NODE, [sys.executable, "-c", _ECHO, address, str(_PORT)])
        server = undo.enter_context(subprocess.Popen(command))
        undo.callback(server.kill)
        wait_until(lambda: accepts_connections(address, _PORT), timeout_s=10, what="a server")
        yield made


def echoed(network: NodeNetwork, data: bytes) -> bytes:
    got = bytearray()
    address = network.address(_NODE), _PORT
    with socket.create_connection(address, timeout=_TIMEOUT_S) as client:
        sender = threading.Thread(target=client.sendall, args=(data,), daemon=True)
        sender.start()
        while len(got) < len(data) and (piece := client.recv(65_536)):
            got += piece
        sender.join(_TIMEOUT_S)
    return bytes(got)


@pytest.mark.slow
def test_tcp_puts_right_what_the_forwarder_does(network: NodeNetwork) -> None:
    network.disorder(seed=7)
    assert echoed(network, _DATA) == _DATA
    counts = network.order()[_NODE]
    assert counts["frames"] > 2 * len(_DATA) / 1514, "all came by here, none larger than a frame"
    for kind in ("duplicated", "swapped", "delayed"):
        assert counts[kind] > 0, counts
    assert "not sent" not in counts, counts
    assert echoed(network, _DATA) == _DATA, "as before"


@pytest.mark.slow
def test_a_forwarder_that_ends_by_itself_is_told(network: NodeNetwork) -> None:
    network.disorder(seed=7)
    assert network._forwarder is not None
    network._forwarder.terminate()
    with pytest.raises(RuntimeError, match="the forwarder ended"):
        network.order()
    assert echoed(network, b"still there") == b"still there"


@pytest.mark.slow
def test_lost_packets_are_counted_until_they_are_healed(network: NodeNetwork) -> None:
    network.lose(_NODE, 0.5)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(100):
            sender.sendto(b"lost?", (network.address(_NODE), _PORT))
        wait_until(lambda: network.dropped(_NODE) >= 20, timeout_s=5, what="lost packets")
        assert network.dropped(_NODE) <= 80
    network.heal()
    assert network.dropped(_NODE) == 0
