"""Which requests wait for memory, and in which order they get it."""

from functools import partial

import pytest

from highwater.gateway.core.budget import BEGUN_MIN, BEGUN_SHARE, REPLIES_SHARE, MemoryBudget

LIMIT = 1 << 20


@pytest.fixture
def granted():
    return []


def ask(budget, granted, nbytes):
    """Ask for memory; record the size if it is granted later."""
    callback = partial(granted.append, nbytes)
    return callback, budget.reserve(nbytes, callback)


def test_small_frames_are_counted_even_above_the_limit():
    budget = MemoryBudget(10)
    budget.charge(12)
    assert budget.exhausted
    budget.release(3)
    assert not budget.exhausted
    assert budget.used == 9


def test_memory_is_granted_in_the_order_of_requests(granted):
    budget = MemoryBudget(10)
    budget.charge(6)
    assert not ask(budget, granted, 9)[1]
    assert not ask(budget, granted, 1)[1], "it fits, but it would overtake"
    budget.release(5)
    assert granted == [9]
    budget.release(1)
    assert granted == [9, 1]
    assert budget.used == 10


def test_a_single_request_may_be_larger_than_the_budget(granted):
    budget = MemoryBudget(10)
    assert ask(budget, granted, 50)[1]
    assert not ask(budget, granted, 60)[1]
    budget.release(50)
    assert granted == [60]
    assert budget.used == 60


def test_withdrawing_a_request_grants_those_behind_it(granted):
    budget = MemoryBudget(10)
    budget.charge(5)
    first, _ = ask(budget, granted, 9)
    ask(budget, granted, 5)
    budget.withdraw(first)
    assert granted == [5]
    budget.withdraw(first)
    assert budget.used == 10


def test_releasing_more_than_was_reserved_fails():
    budget = MemoryBudget(10)
    budget.charge(5)
    with pytest.raises(AssertionError):
        budget.release(6)


class Begun:
    def __init__(self):
        self.gone = False

    def give_up_begun(self):
        self.gone = True


def test_begun_frames_are_limited_to_a_share_and_the_oldest_is_dropped():
    budget = MemoryBudget(100 << 20)
    one, two, three = Begun(), Begun(), Begun()
    share = budget.limit // BEGUN_SHARE
    budget.hold_begun(one, 1, anew=True)
    budget.hold_begun(two, share - 1, anew=True)
    budget.hold_begun(one, 1, anew=True)
    assert budget.begun == share
    budget.hold_begun(three, 2, anew=True)
    assert (one.gone, two.gone, three.gone) == (False, True, False), "one began another frame"
    assert (budget.begun, budget.given_up) == (3, 1)
    budget.hold_begun(one, 5, anew=False)
    budget.hold_begun(three, share, anew=False)
    assert (one.gone, three.gone, budget.begun) == (True, False, share)
    budget.hold_begun(three, 0, anew=True)
    assert (budget.begun, budget.used, budget.given_up) == (0, 0, 2)


def test_one_begun_frame_alone_fits_into_the_smallest_share():
    budget = MemoryBudget(1)
    begun = Begun()
    budget.hold_begun(begun, BEGUN_MIN, anew=True)
    assert not begun.gone


def test_begun_frames_leave_less_for_others(granted):
    budget = MemoryBudget(1000)
    begun = Begun()
    budget.hold_begun(begun, 600, anew=True)
    budget.charge(300)
    assert not budget.exhausted
    budget.charge(100)
    assert budget.exhausted
    assert not ask(budget, granted, 100)[1]
    budget.hold_begun(begun, 500, anew=False)
    assert granted == [100]


def test_memory_counts_as_exhausted_while_a_request_waits(granted):
    budget = MemoryBudget(1000)
    budget.charge(500)
    assert not ask(budget, granted, 900)[1]
    assert budget.exhausted
    budget.release(400)
    assert granted == [900]
    assert budget.exhausted
    budget.release(1)
    assert not budget.exhausted


def test_replies_share_the_budget_with_requests():
    budget = MemoryBudget(LIMIT)
    granted = []
    budget.charge(1)
    budget.hold_replies(LIMIT // 2)
    assert not budget.reserve(LIMIT // 2, lambda: granted.append("large"))
    assert granted == []
    budget.hold_replies(-LIMIT // 2)
    assert granted == ["large"]


@pytest.mark.parametrize("steps", [(1,), (LIMIT // 2,), (1, LIMIT)])
def test_when_replies_fit_calls_back_once(steps):
    budget = MemoryBudget(LIMIT)
    scarce = LIMIT // REPLIES_SHARE
    heard = []
    budget.hold_replies(scarce - 1)
    assert not budget.replies_scarce
    for step in steps:
        budget.hold_replies(step)
        assert budget.replies_scarce
    budget.when_replies_fit(lambda: heard.append(1))
    assert heard == []
    budget.hold_replies(-sum(steps))
    assert not budget.replies_scarce
    budget.hold_replies(sum(steps))
    budget.hold_replies(-sum(steps))
    assert heard == [1]
