import asyncio

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.routing import departure
from highwater.gateway.routing.departure import Departure
from highwater.kafka.error_codes import ErrorCode


class Heartbeats:
    """Answers each heartbeat in the next turn of the loop with the next of `answers`, if there is one."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.beats = 0
        self.leaving = None

    def nudge(self):
        self.beats += 1
        assert self.leaving.begun, "the heartbeat says so"
        if self.answers:
            answer = self.answers.pop(0)
            asyncio.get_running_loop().call_soon(self.leaving.answered, answer)


class Lines:
    def __init__(self):
        self.told = []

    def warning(self, event, **_values):
        self.told.append(event)


async def leave(*answers):
    heartbeats, lines = Heartbeats(*answers), Lines()
    heartbeats.leaving = Departure(lines)
    return await heartbeats.leaving.leave(heartbeats), heartbeats.beats, lines.told


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(departure, "BEAT_S", 0.01)


MAY = pb.HeartbeatResponse(may_shut_down=True)
NOT_YET = pb.HeartbeatResponse()
UNKNOWN = pb.HeartbeatResponse(
    error=pb.ApiError(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, message="")
)


async def test_it_asks_until_it_may():
    assert await leave(NOT_YET, NOT_YET, MAY) == (True, 3, [])


async def test_a_controller_that_does_not_know_the_gateway_names_it_to_nobody():
    assert await leave(UNKNOWN) == (True, 1, [])


async def test_without_an_answer_it_goes_nevertheless(monkeypatch):
    monkeypatch.setattr(departure, "LEAVE_S_MAX", 0.05)
    gone, beats, told = await leave(NOT_YET)
    assert not gone
    assert beats > 1
    assert told == ["gateway_not_removed"]


async def test_answers_before_it_leaves_mean_nothing():
    one = Departure(Lines())
    one.answered(MAY)
    heartbeats = Heartbeats(MAY)
    heartbeats.leaving = one
    assert await one.leave(heartbeats)
    assert heartbeats.beats == 1


async def test_one_that_registers_just_now_goes_on_until_it_is_removed():
    """It was lost, and the registration that is under way names it to clients again."""
    one = Departure(Lines())

    class Registering(Heartbeats):
        def nudge(self):
            self.beats += 1
            answer = self.answers.pop(0)
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: one.answered(answer, registering=answer is UNKNOWN))

    heartbeats = Registering(UNKNOWN, NOT_YET, MAY)
    assert await one.leave(heartbeats)
    assert heartbeats.beats == 3
