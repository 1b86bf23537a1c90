"""Whom a door lets in, and whom it puts out."""

import pytest

from highwater.gateway.sockets.door import Door, Reason
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState

A = InstanceId("a")
HERE, THERE = "127.0.0.1", "10.0.0.1"


class Peer:
    def __init__(self, host):
        self.host = host


class Connection:
    def __init__(self, host):
        self.client = self
        self.peer = Peer(host)
        self.closed_for = None

    def close(self, reason):
        self.closed_for = reason


class World:
    def __init__(self):
        self.refused, self.bad, self.everybody = [], [], set()
        self.door = Door(
            A,
            self.everybody,
            on_refused=lambda _door, *told: self.refused.append(told),
            on_bad_list=lambda _door, error: self.bad.append(error),
        )

    def enter(self, host):
        if not self.door.lets_in(host):
            return None
        made = Connection(host)
        self.door.add(made)
        return made


@pytest.fixture
def w():
    return World()


def state(**limits):
    return InstanceState(instance=A, **limits)


def test_without_limits_everybody_comes_in(w):
    one, other = w.enter(HERE), w.enter("no address")
    assert w.door.connections == w.everybody == {one, other}
    w.door.discard(one)
    assert w.door.connections == w.everybody == {other}
    w.door.discard(one)  # As for a connection that has never been inside.
    assert w.refused == []


def test_a_list_lets_in_whom_it_names(w):
    w.door.follow(state(allowed_networks=("127.0.0.0/8",)))
    assert w.enter(HERE)
    assert w.enter("::ffff:127.0.0.9")
    assert not w.enter(THERE)
    assert w.refused == [(Reason.NETWORK, THERE)]
    assert w.door.refused == {Reason.NETWORK: 1, Reason.LIMIT: 0, Reason.SHUT: 0}


def test_an_empty_list_lets_nobody_in(w):
    w.door.follow(state(allowed_networks=()))
    assert not w.enter(HERE)


def test_who_is_not_allowed_any_more_is_put_out(w):
    here, there = w.enter(HERE), w.enter(THERE)
    w.door.follow(state(allowed_networks=("10.0.0.0/8",)))
    assert "not allowed" in here.closed_for
    assert there.closed_for is None
    w.door.follow(state(allowed_networks=()))
    assert "not allowed" in there.closed_for


def test_without_a_list_again_everybody_comes_in(w):
    w.door.follow(state(allowed_networks=()))
    w.door.follow(state())
    assert w.enter(HERE)
    w.door.follow(state(allowed_networks=()))
    w.door.follow(None)
    assert w.enter(HERE)


def test_a_list_that_is_not_understood_lets_nobody_in(w):
    w.door.follow(state(allowed_networks=("127.0.0.1", "what?")))
    assert not w.enter(HERE)
    assert len(w.bad) == 1
    assert "what?" in w.bad[0]


def test_only_so_many_come_in(w):
    w.door.follow(state(connections_max=2))
    first = w.enter(HERE)
    assert w.enter(HERE)
    assert not w.enter(THERE)
    assert w.refused == [(Reason.LIMIT, THERE)]
    w.door.discard(first)
    assert w.enter(THERE)


def test_a_lower_limit_puts_nobody_out(w):
    inside = w.enter(HERE)
    w.door.follow(state(connections_max=0))
    assert inside.closed_for is None
    assert not w.enter(HERE)


def test_nobody_comes_in_while_it_is_shut(w):
    w.door.is_shut = True
    assert not w.enter(HERE)
    assert w.refused == [(Reason.SHUT, HERE)]
    w.door.is_shut = False
    assert w.enter(HERE)
