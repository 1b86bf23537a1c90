import socket

import pytest

from highwater.embed.supervisor import readiness
from highwater.model.errors import UnreachableError


@pytest.fixture
def brokers(monkeypatch):
    """Ports of the nodes that may lead; None means no answer."""
    told = []

    class Client:
        def __init__(self, bootstrap, *, timeout_s):
            assert bootstrap == "127.0.0.1:1"
            if told[0] is None:
                raise UnreachableError("away")

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            pass

        def live_brokers(self):
            return [("127.0.0.1", port) for port in told]

    monkeypatch.setattr(readiness, "KafkaClient", Client)
    return told


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_every_node_is_known_and_accepts(brokers, listening):
    brokers += [listening, listening]
    assert readiness.serves_all_nodes("127.0.0.1", 1, 2)


def test_not_all_nodes_are_known(brokers, listening):
    brokers += [listening]
    assert not readiness.serves_all_nodes("127.0.0.1", 1, 2)


def test_a_node_has_no_port_yet(brokers, listening, unused_port):
    brokers += [listening, unused_port]
    assert not readiness.serves_all_nodes("127.0.0.1", 1, 2)


def test_no_server_answers(brokers):
    brokers += [None]
    assert not readiness.serves_all_nodes("127.0.0.1", 1, 1)
