"""Requests of a broken stream are answered in order, some in each turn of the loop."""

import asyncio

from highwater.gateway.clients.lost_waits import LostWaits
from highwater.hop.ports import ENDED_IN_STEP


async def test_some_are_answered_in_each_turn_and_all_in_order():
    answered, bugs = [], []
    lost = LostWaits(answered.append, bugs.append)
    lost.add(range(40))
    assert len(answered) == ENDED_IN_STEP
    lost.add(range(40, 50))
    assert len(answered) == ENDED_IN_STEP, "those that wait already come first"
    turns = 0
    while len(answered) < 50:
        before = len(answered)
        await asyncio.sleep(0)
        assert len(answered) - before <= ENDED_IN_STEP
        turns += 1
        assert turns < 9
    assert answered == list(range(50))
    assert bugs == []


async def test_the_end_answers_all_at_once():
    answered, bugs = [], []
    lost = LostWaits(answered.append, bugs.append)
    lost.add(range(40))
    lost.end_all()
    assert answered == list(range(40))
    await asyncio.sleep(0)
    assert answered == list(range(40))


async def test_a_bug_of_one_is_told_and_costs_no_other():
    answered, bugs = [], []

    def answer(number):
        if number == 3:
            raise ZeroDivisionError
        answered.append(number)

    lost = LostWaits(answer, bugs.append)
    lost.add(range(5))
    assert answered == [0, 1, 2, 4]
    assert [type(error) for error in bugs] == [ZeroDivisionError]
