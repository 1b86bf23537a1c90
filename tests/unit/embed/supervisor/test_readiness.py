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


class Ids:
    """Stands for KafkaClient: which cluster answers at each port; others do not accept, or hang up."""

    def __init__(self, answers):
        self.answers = answers

    def __call__(self, bootstrap, *, timeout_s):
        port = int(bootstrap.rpartition(":")[2])
        if port not in self.answers:
            raise UnreachableError("away")
        self.port = port
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def cluster_id(self):
        return self.answers[self.port]


@pytest.mark.parametrize(
    ("answers", "strange"),
    [
        ({1: "ours", 0: "ours"}, False),
        ({1: "ours", 2: "ours", 0: "theirs"}, True),
        ({2: "ours"}, True),
        ({}, False),
        ({0: "theirs"}, False),
    ],
    ids=["ours", "another cluster", "no broker", "nobody knows yet", "nobody can know"],
)
def test_a_shared_bootstrap_port_is_compared_with_those_of_nodes(
    monkeypatch, listening, answers, strange
):
    answers = {listening + behind: cluster for behind, cluster in answers.items()}
    monkeypatch.setattr(readiness, "KafkaClient", Ids(answers))
    found = readiness.strange_port("127.0.0.1", listening, 2, shared=True)
    assert found == (listening if strange else None)


@pytest.mark.parametrize(
    ("answers", "strange"),
    [
        ({-2: "ours", 0: "ours"}, False),
        ({-2: "ours", -1: "ours", 0: "theirs"}, True),
        ({-2: "ours"}, True),
        ({-1: "ours"}, False),
    ],
    ids=["ours", "another cluster", "no broker", "nobody can know"],
)
def test_ports_of_nodes_are_compared_with_a_gateway_s_own(monkeypatch, listening, answers, strange):
    answers = {listening + behind: cluster for behind, cluster in answers.items()}
    monkeypatch.setattr(readiness, "KafkaClient", Ids(answers))
    found = readiness.strange_port("127.0.0.1", listening - 2, 2, shared=False)
    assert found == (listening if strange else None)


def test_a_port_without_a_listener_is_nobodys(monkeypatch, unused_port):
    monkeypatch.setattr(readiness, "KafkaClient", Ids({unused_port + 1: "ours"}))
    assert readiness.strange_port("127.0.0.1", unused_port, 2, shared=True) is None
