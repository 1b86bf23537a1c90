"""Who waits for memory, and in which order it is given."""

from functools import partial

import pytest

from highwater.gateway.core.budget import MemoryBudget


@pytest.fixture
def granted():
    return []


def ask(budget, granted, nbytes):
    """Asks for memory; notes the size when it is granted later."""
    callback = partial(granted.append, nbytes)
    return callback, budget.reserve(nbytes, callback)


def test_small_frames_are_counted_even_above_the_limit():
    budget = MemoryBudget(10)
    budget.charge(12)
    assert budget.exhausted
    budget.release(3)
    assert not budget.exhausted
    assert budget.used == 9


def test_waiting_is_first_come_first_served(granted):
    budget = MemoryBudget(10)
    budget.charge(6)
    assert not ask(budget, granted, 9)[1]
    assert not ask(budget, granted, 1)[1], "it fits, but it would overtake"
    budget.release(5)
    assert granted == [9]
    budget.release(1)
    assert granted == [9, 1]
    assert budget.used == 10


def test_one_alone_may_be_larger_than_everything(granted):
    budget = MemoryBudget(10)
    assert ask(budget, granted, 50)[1]
    assert not ask(budget, granted, 60)[1]
    budget.release(50)
    assert granted == [60]
    assert budget.used == 60


def test_withdrawing_lets_those_behind_in(granted):
    budget = MemoryBudget(10)
    budget.charge(5)
    first, _ = ask(budget, granted, 9)
    ask(budget, granted, 5)
    budget.withdraw(first)
    assert granted == [5]
    budget.withdraw(first)
    assert budget.used == 10


def test_giving_back_more_than_was_taken_is_a_bug():
    budget = MemoryBudget(10)
    budget.charge(5)
    with pytest.raises(AssertionError):
        budget.release(6)
