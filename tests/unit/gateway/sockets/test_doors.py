"""The doors of a gateway follow the instances of its image."""

import pytest

from highwater.gateway.sockets.doors import Doors
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState
from highwater.runtime.log_limit import LINES_PER_WINDOW

A, B = InstanceId("a"), InstanceId("b")
HERE = "127.0.0.1"


class Log:
    def __init__(self):
        self.lines = []

    def warning(self, event, **values):
        self.lines.append((event, values))

    error = warning


class Inside:
    def close(self, _reason):
        raise AssertionError


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def doors(log):
    return Doors(set(), log=log, now_ms=lambda: 0)


def instances(*states):
    return {state.instance: state for state in states}


def test_the_default_instance_is_open_also_without_being_in_the_image(doors):
    assert doors.of(DEFAULT_INSTANCE).lets_in(HERE)
    doors.follow(instances(InstanceState(instance=DEFAULT_INSTANCE, allowed_networks=())))
    assert not doors.of(DEFAULT_INSTANCE).lets_in(HERE)
    doors.follow({})
    assert doors.of(DEFAULT_INSTANCE).lets_in(HERE)


def test_another_instance_is_open_while_the_image_has_it(doors):
    door = doors.of(A)
    assert not door.lets_in(HERE)
    doors.follow(instances(InstanceState(instance=A)))
    assert door.lets_in(HERE)
    doors.follow(instances(InstanceState(instance=A, purge_at_ms=1)))
    assert not door.lets_in(HERE)
    doors.follow(instances(InstanceState(instance=A)))
    assert door.lets_in(HERE)
    doors.follow({})
    assert not door.lets_in(HERE)


def test_each_has_limits_of_its_own_also_if_it_is_asked_for_later(doors):
    doors.follow(
        instances(InstanceState(instance=A, allowed_networks=()), InstanceState(instance=B))
    )
    assert not doors.of(A).lets_in(HERE)
    assert doors.of(B).lets_in(HERE)
    assert {door.instance for door in doors} == {A, B}


def test_the_door_of_a_former_instance_goes_when_nobody_is_inside(doors):
    doors.follow(instances(InstanceState(instance=A)))
    door, inside = doors.of(A), Inside()
    door.add(inside)
    doors.follow({})
    assert list(doors) == [door]
    door.discard(inside)
    doors.follow(instances(InstanceState(instance=B)))
    assert list(doors) == []
    assert not door.lets_in(HERE)


def test_refusals_are_logged_within_a_limit(doors, log):
    doors.follow(instances(InstanceState(instance=A, allowed_networks=())))
    for number in range(50):
        doors.of(A).lets_in(f"10.0.0.{number}")
    assert len(log.lines) == LINES_PER_WINDOW
    event, values = log.lines[0]
    assert event == "client_refused"
    assert (values["instance"], values["host"]) == (A, "10.0.0.0")
    assert "not allowed" in values["reason"]


def test_a_list_that_is_not_understood_is_logged(doors, log):
    doors.of(A)
    doors.follow(instances(InstanceState(instance=A, allowed_networks=("x",))))
    ((event, values),) = log.lines
    assert event == "allowed_networks_not_understood"
    assert "'x'" in values["error"]


def test_the_door_that_a_port_of_the_default_instance_has_stays_in_force(doors):
    """Its port has the door from the start on, and nobody may be connected when an instance comes."""
    held = doors.of(DEFAULT_INSTANCE)
    doors.follow(instances(InstanceState(instance=A)))
    assert doors.of(DEFAULT_INSTANCE) is held
    doors.follow(instances(InstanceState(instance=DEFAULT_INSTANCE, allowed_networks=())))
    assert not held.lets_in(HERE)
