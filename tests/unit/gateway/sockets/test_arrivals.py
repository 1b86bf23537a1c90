"""Who comes in, who waits and who is closed: decided with a clock of the test, and on real sockets."""

import asyncio
import time

import pytest
import uvloop

from highwater.gateway.quota.core.connection_limits import ConnectionLimits, ConnectionTurns
from highwater.gateway.quota.core.connection_rates import ConnectionRates
from highwater.gateway.quota.core.precedence import AddressLimits
from highwater.gateway.quota.core.windowed_rate import QuotaWindows
from highwater.gateway.sockets import arrivals as module
from highwater.gateway.sockets.arrivals import Arrivals
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.steps import finish
from highwater.runtime.logging import silent_logger
from tests.unit.gateway.clients.partition_node import until
from tests.unit.gateway.core.session_world import FETCH, METADATA, PRODUCE, request
from tests.unit.gateway.quota.core.test_connection_limits import Present
from tests.unit.gateway.quota.quota_world import key
from tests.unit.gateway.sockets.listener_world import World, closed

SHOP = InstanceId("shop")


class Timer:
    def __init__(self, at_ms, call):
        self.at_ms, self.call = at_ms, call

    def cancel(self):
        self.call = None


class Guest:
    """An arrival without a socket."""

    def __init__(self, stage, instance=DEFAULT_INSTANCE, listener="default", host="10.0.0.1"):
        self.stage = stage
        self.instance, self.listener, self.host = instance, listener, host
        self.over, self.due, self.state = False, None, "waits"

    def _finish(self, state):
        self.over, self.state = True, state
        self.stage.arrivals.gone(self)
        if self.due is not None:
            self.due.cancel()

    def go(self):
        self._finish("in")
        self.stage.order.append(self)
        self.stage.present.listeners[self.listener] += 1
        self.stage.present.hosts[self.host] += 1

    def end(self):
        self._finish("closed")


class Stage:
    def __init__(self, **limits):
        self.now_ms = 1_000_000
        self.timers, self.order = [], []
        self.present = Present()
        windows = QuotaWindows()
        self.rates = ConnectionRates(windows, lambda: self.now_ms)
        self.turns = ConnectionTurns(windows, self.present)
        self.turns.limits = ConnectionLimits(**limits)
        self.arrivals = Arrivals(
            self.rates,
            self.turns,
            now_ms=lambda: self.now_ms,
            call_later=self._call_later,
            log=silent_logger(),
        )

    def _call_later(self, s, call):
        timer = Timer(self.now_ms + s * 1000, call)
        self.timers.append(timer)
        return timer

    def come(self, number=1, **place):
        guests = [Guest(self, **place) for _ in range(number)]
        for guest in guests:
            self.arrivals.came(guest)
        return guests

    def run(self, ms):
        end_ms = self.now_ms + ms
        while due := [t for t in self.timers if t.call is not None and t.at_ms <= end_ms]:
            timer = min(due, key=lambda t: t.at_ms)
            self.now_ms = max(self.now_ms, int(timer.at_ms))
            call, timer.call = timer.call, None
            call()
        self.now_ms = end_ms

    def leave(self, listener="default"):
        self.present.listeners[listener] -= 1


def states(guests):
    return [guest.state for guest in guests]


def test_above_the_rate_they_wait_and_come_in_one_after_the_other():
    stage = Stage(rate=10)
    guests = stage.come(105)
    assert states(guests) == ["in"] * 100 + ["waits"] * 5
    assert (stage.arrivals.delayed, len(stage.arrivals.waiting)) == (5, 5)
    for seen in range(1, 6):
        stage.run(100 * seen)  # Each has one more before it in the same windows.
        assert states(guests).count("in") == 100 + seen
    assert not stage.arrivals.waiting
    assert stage.order == guests


def test_without_room_they_wait_until_somebody_has_left():
    stage = Stage(connections_by={"default": 2})
    guests = stage.come(3)
    others = stage.come(3, listener="internal")
    assert states(guests) == ["in", "in", "waits"]
    assert states(others) == ["in"] * 3
    stage.run(5_000)
    assert states(guests) == ["in", "in", "waits"]
    stage.leave()
    stage.run(module.ROOM_LOOK_MS)
    assert states(guests) == ["in"] * 3


def test_none_waits_for_longer_than_clients_do():
    stage = Stage(connections=1)
    _, late = stage.come(2)
    stage.run(module.WAIT_S_MAX * 1000 - 1)
    assert late.state == "waits"
    stage.run(1)
    assert (late.state, stage.arrivals.refused, len(stage.arrivals)) == ("closed", 1, 0)
    stage.leave()
    (next_one,) = stage.come()
    stage.run(module.ROOM_LOOK_MS)
    assert next_one.state == "in", "and it does not hold up the next ones"


def test_instances_take_turns():
    stage = Stage(rate=1)
    stage.come(10)
    flood = stage.come(100, instance=SHOP)
    (mine,) = stage.come()
    stage.run(3_000)
    assert mine.state == "in"
    assert states(flood).count("in") == 2


def test_only_so_many_wait(monkeypatch):
    monkeypatch.setattr(module, "WAITING_OF_INSTANCE_MAX", 3)
    monkeypatch.setattr(module, "WAITING_MAX", 6)
    stage = Stage(connections=1)
    guests = stage.come(7, instance=SHOP)
    # One is in, the next waits for room, and three are behind it.
    assert states(guests) == ["in"] + ["waits"] * 4 + ["closed"] * 2
    assert states(stage.come(3)) == ["waits"] * 2 + ["closed"]
    assert (stage.arrivals.refused, len(stage.arrivals.waiting)) == (3, 6)
    guests[2].end()
    assert states(stage.come()) == ["waits"], "who has gone makes room"


def test_who_goes_while_it_is_the_next_one_lets_the_others_pass():
    stage = Stage(rate=10)
    stage.come(100)
    one, two = stage.come(2)
    one.end()
    stage.run(1_000)
    assert two.state == "in"


def test_limits_that_are_taken_away_hold_up_nobody():
    stage = Stage(connections=1)
    guests = stage.come(4)
    stage.turns.limits = ConnectionLimits()
    assert not stage.arrivals.limited
    stage.run(module.ROOM_LOOK_MS)
    assert states(guests) == ["in"] * 4


def test_an_address_has_only_so_many():
    stage = Stage(of_address=2, rate=1000)
    assert states(stage.come(3)) == ["in", "in", "closed"]
    assert states(stage.come(1, host="::ffff:10.0.0.1")) == ["closed"], "the same address"
    assert states(stage.come(1, host="10.0.0.2")) == ["in"]


def test_those_that_wait_count_for_their_address_when_they_come_in():
    stage = Stage(of_address=2, connections=1)
    guests = stage.come(4)
    stage.turns.limits = ConnectionLimits(of_address=2)
    stage.run(module.ROOM_LOOK_MS)
    assert states(guests) == ["in", "in", "closed", "closed"]


def test_above_the_rate_of_their_address_they_wait_to_be_closed(monkeypatch):
    monkeypatch.setattr(module, "HELD_MAX", 2)
    stage = Stage()
    stage.rates.limits = AddressLimits({(DEFAULT_INSTANCE, "10.0.0.1"): 2.0})
    assert stage.arrivals.limited
    assert states(stage.come(20)) == ["in"] * 20
    late = stage.come(3)
    assert states(late) == ["waits", "waits", "closed"]
    stage.run(500)
    assert states(late) == ["closed"] * 3
    assert (stage.arrivals.throttled, len(stage.arrivals)) == (3, 0)


def test_a_stop_closes_all_who_are_here():
    stage = Stage(connections=1)
    guests = stage.come(3)
    stage.arrivals.close()
    assert states(guests) == ["in", "closed", "closed"]
    assert all(timer.call is None for timer in stage.timers)


# ---- real sockets ----


async def test_over_the_rate_of_their_address_they_get_no_answer_and_are_closed(world):
    finish(world.quotas.following({key(ip="127.0.0.1"): {"connection_creation_rate": 0.2}}, []))
    await world.listen()
    async with world.client() as (reader, writer), world.client() as other, world.client() as third:
        writer.write(request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;"
        other[1].write(request(PRODUCE, 2))
        assert await other[0].readexactly(2) == b"2;", "two in 10 s"
        begun = time.monotonic()
        third[1].write(request(METADATA, 3) + request(PRODUCE, 4) + request(FETCH, 5))
        assert await closed(third[0]), "and nothing was answered"
        assert 0.5 < time.monotonic() - begun < 4
    await until(lambda: not world.listener.connections)
    assert world.listener.newcomers.arrivals.throttled == 1
    assert world.budget.used == 0


async def one_after_the_other(world):
    """What was sent while a connection waited is answered when it has come in."""
    await world.listen()
    newcomers = world.listener.newcomers
    newcomers.turns.limits = ConnectionLimits(connections=1)
    async with world.client() as (reader, writer):
        writer.write(request(PRODUCE, 1))
        assert await reader.readexactly(2) == b"1;"
        async with world.client() as (late, sender):
            sender.write(request(PRODUCE, 2) + request(PRODUCE, 3, 200_000))
            await until(lambda: newcomers.arrivals.waiting)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await late.read(1)
            writer.transport.abort()
            async with asyncio.timeout(5):
                assert await late.readexactly(4) == b"2;3;"
            assert len(newcomers) == 1
    await until(lambda: not len(newcomers))
    assert (newcomers.arrivals.delayed, newcomers.arrivals.refused) == (1, 0)


async def test_one_that_waited_is_served_as_any_other(world):
    await one_after_the_other(world)


def test_so_it_is_on_the_loop_that_gateways_use():
    async def scenario():
        world = World()
        await one_after_the_other(world)
        await world.listener.close(drain_s=0)

    uvloop.run(scenario())


async def test_a_client_that_goes_while_it_waits_is_forgotten(world):
    await world.listen()
    newcomers = world.listener.newcomers
    newcomers.turns.limits = ConnectionLimits(connections=1)
    async with world.client():
        await until(lambda: len(newcomers) == 1)
        async with world.client():
            await until(lambda: newcomers.arrivals.waiting)
        newcomers.arrivals.close()
        assert len(newcomers.arrivals) == 0
