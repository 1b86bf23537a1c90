"""Processes of one host speak by the nodes' unix sockets, or by TCP where they may not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from highwater.hop.segment_files import INCARNATION_FILE
from highwater.hop.unix_socket import SOCKET_FILE
from tests.cluster.runner import Up
from tests.cluster.test_metrics import scrape
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until

RECONNECT_S_MAX = 30.0


def ways(up: Up, service: str) -> tuple[float, float]:
    """Connections to nodes by TCP and by unix sockets, of all processes of a service."""
    try:
        found = scrape(up)
    except OSError:
        return 0, 0  # A process has just ended.
    name = f"{service}_hop_unix_connections"
    unix = found[name, "client"]
    return found[f"{service}_hop_connections", "client"] - unix, unix


def by(up: Up, service: str, wanted: tuple[int, int]) -> None:
    wait_until(
        lambda: ways(up, service) == wanted,
        timeout_s=RECONNECT_S_MAX,
        what=f"{service}: {wanted} connections by TCP and unix sockets",
    )


def kill(up: Up, name: str) -> None:
    """The supervisor starts the process again."""
    old = up.pids()[name]
    os.kill(old, signal.SIGKILL)
    wait_until(
        lambda: up.pids().get(name, old) != old, timeout_s=RECONNECT_S_MAX, what=f"another {name}"
    )


class Traffic:
    """Numbered records, all of which are there in the end."""

    def __init__(self, up: Up, topic: str) -> None:
        self._up, self._topic = up, topic
        self._producer = NumberedProducer(up.bootstrap, topic)

    def passes(self) -> None:
        self._producer.send(100)
        self._producer.flush()
        assert not self._producer.errors
        found = read_all(self._up.bootstrap, self._topic, 1)
        assert sorted(found) == sorted(self._producer.acknowledged)


@pytest.mark.parametrize("up", ["nodes3"], indirect=True)
def test_all_on_one_host(up: Up):
    topic = make_replicated_topic(up.bootstrap, "t", partitions=6)
    by(up, "gateway", (0, 3))
    producer = NumberedProducer(up.bootstrap, topic)
    producer.send(300)
    producer.flush()
    assert not producer.errors
    assert set(read_all(up.bootstrap, topic, 6)) == producer.acknowledged
    # Each node follows both others.
    by(up, "partition", (0, 6))


@pytest.mark.full
@pytest.mark.parametrize("up", ["separate"], indirect=True)
def test_tcp_instead(up: Up):
    directory: Path = up.data_dir / "node-1"
    path = directory / SOCKET_FILE
    topic = make_replicated_topic(up.bootstrap, "t", partitions=1, replication_factor=1)
    traffic = Traffic(up, topic)
    by(up, "gateway", (0, 1))
    traffic.passes()
    path.unlink()
    kill(up, "gateway-1")
    by(up, "gateway", (1, 0))
    traffic.passes()
    kill(up, "partition-1")
    by(up, "gateway", (0, 1))
    traffic.passes()
    assert path.is_socket(), "a node that was killed makes it anew"
    (directory / INCARNATION_FILE).write_text("another host's")
    kill(up, "gateway-1")
    by(up, "gateway", (1, 0))
    traffic.passes()


@pytest.mark.parametrize("up", ["grpcio3"], indirect=True)
@pytest.mark.full
def test_grpcio_keeps_to_tcp(up: Up):
    topic = make_replicated_topic(up.bootstrap, "t", partitions=3)
    producer = NumberedProducer(up.bootstrap, topic)
    producer.send(100)
    producer.flush()
    assert not producer.errors
    assert not list(up.data_dir.rglob(SOCKET_FILE))
