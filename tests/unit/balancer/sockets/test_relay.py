"""The two sides of a relay, step by step, without sockets."""

import socket

import pytest

from highwater.balancer.sockets.relay import Relay


class Transport:
    def __init__(self):
        self.did = []
        self.socket = socket.socket()

    def get_extra_info(self, _name):
        return self.socket

    def set_write_buffer_limits(self, high):
        assert high > 0

    def is_closing(self):
        return "close" in self.did

    def write(self, data):
        self.did.append(data)

    def __getattr__(self, name):
        return lambda: self.did.append(name)


class World:
    def __init__(self):
        self.relays = set()
        self.started = []
        self.ends = 0
        self.relay = Relay(connect=lambda _: "work", start=self.started.append, relays=self.relays)
        self.client, self.gateway = Transport(), Transport()
        self.relay.on_end = self.end

    def end(self):
        self.ends += 1

    def open(self, header=b"header"):
        self.relay.client.connection_made(self.client)
        self.relay.gateway.connection_made(self.gateway)
        self.relay.connected(header)
        self.client.did.clear()
        return self


@pytest.fixture
def world():
    made = World()
    yield made
    made.client.socket.close()
    made.gateway.socket.close()


def test_the_client_waits_for_its_gateway(world):
    world.relay.client.connection_made(world.client)
    assert world.client.did == ["pause_reading"]
    assert world.started == ["work"]
    assert world.relays == {world.relay}
    world.relay.gateway.connection_made(world.gateway)
    world.relay.connected(b"header")
    assert world.client.did[-1] == "resume_reading"
    assert world.gateway.did == [b"header"]


def test_early_client_bytes_follow_the_header(world):
    world.relay.client.connection_made(world.client)
    world.relay.client.data_received(b"early ")
    assert world.client.did == ["pause_reading", "pause_reading"]
    world.relay.client.data_received(b"bird")
    world.relay.gateway.connection_made(world.gateway)
    world.relay.connected(b"header ")
    assert world.gateway.did == [b"header early bird"]
    assert world.client.did[-1] == "resume_reading"


def test_a_slow_gateway_pauses_the_client_after_early_bytes(world):
    world.relay.client.connection_made(world.client)
    world.relay.client.data_received(b"much")
    world.relay.gateway.connection_made(world.gateway)
    world.gateway.write = lambda _data: world.relay.gateway.pause_writing()
    world.relay.connected(b"header")
    assert world.client.did[-1] == "pause_reading"
    world.relay.gateway.resume_writing()
    assert world.client.did[-1] == "resume_reading"


def test_nothing_comes_before_the_header(world):
    """The loop reports a connection first, and a little later wakes the task that waits for it."""
    world.relay.client.connection_made(world.client)
    world.relay.gateway.connection_made(world.gateway)
    world.relay.client.data_received(b"question")
    assert world.relay.client.eof_received()
    assert world.gateway.did == []
    world.relay.connected(b"header ")
    assert world.gateway.did == [b"header question", "write_eof"]


@pytest.mark.parametrize("broken", ["client", "gateway"])
def test_a_side_that_breaks_while_the_gateway_answers(world, broken):
    world.relay.client.connection_made(world.client)
    world.relay.client.data_received(b"early")
    world.relay.gateway.connection_made(world.gateway)
    getattr(world, broken).did.append("close")
    world.relay.connected(b"header")
    assert world.gateway.did in ([], ["close"])
    getattr(world.relay, broken).connection_lost(None)
    assert world.relay.is_closed()


def test_a_client_that_ends_before_the_gateway_answers(world):
    world.relay.client.connection_made(world.client)
    world.relay.client.data_received(b"question")
    assert world.relay.client.eof_received()
    world.relay.gateway.connection_made(world.gateway)
    world.relay.connected(b"")
    assert world.gateway.did == [b"question", "write_eof"]
    assert not world.relay.is_closed()


def test_bytes_go_to_the_other_side(world):
    world.open(header=b"")
    world.relay.client.data_received(b"question")
    world.relay.gateway.data_received(b"answer")
    assert (world.gateway.did, world.client.did) == ([b"question"], [b"answer"])


@pytest.mark.parametrize("slow", ["client", "gateway"])
def test_a_slow_side_stops_the_other(world, slow):
    world.open(header=b"")
    other = world.gateway if slow == "client" else world.client
    getattr(world.relay, slow).pause_writing()
    getattr(world.relay, slow).resume_writing()
    assert other.did == ["pause_reading", "resume_reading"]


def test_the_end_of_one_direction_leaves_the_other(world):
    world.open(header=b"")
    assert world.relay.client.eof_received()
    assert world.gateway.did == ["write_eof"]
    world.relay.gateway.data_received(b"late answer")
    assert world.client.did == [b"late answer"]
    assert world.relay.gateway.eof_received()
    assert (world.client.did[-1], world.gateway.did[-1]) == ("close", "close")
    assert world.ends == 1


@pytest.mark.parametrize("first", ["client", "gateway"])
def test_a_lost_side_closes_the_other_and_the_relay_ends_once(world, first):
    world.open()
    second = "gateway" if first == "client" else "client"
    getattr(world.relay, first).connection_lost(None)
    assert getattr(world, second).did[-1] == "close"
    assert world.relays == {world.relay}, "until both are gone"
    getattr(world.relay, second).data_received(b"too late")
    getattr(world.relay, second).connection_lost(None)
    assert (world.relays, world.ends) == (set(), 1)


def test_a_client_without_a_gateway(world):
    world.relay.client.connection_made(world.client)
    world.relay.abort()
    assert world.client.did[-2:] == ["close", "abort"]
    world.relay.client.connection_lost(None)
    assert world.relays == set()
    assert world.relay.is_closed()


def test_idle_relays_end_after_sweeps(world):
    world.open()
    assert [world.relay.is_idle_for(2) for _ in range(2)] == [False, False]
    world.relay.client.data_received(b"x")
    assert [world.relay.is_idle_for(2) for _ in range(3)] == [False, False, True]
