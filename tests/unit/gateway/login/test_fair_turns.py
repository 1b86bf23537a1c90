"""Whose login is checked next, and how many may wait. The test is the thread."""

import asyncio
from concurrent.futures import Executor, Future

import pytest

from highwater.gateway.login.fair_turns import WAITING_MAX, FairTurns, LoginsBusy
from highwater.model.ids import InstanceId

NOISY, QUIET = InstanceId("noisy"), InstanceId("quiet")


class Threads(Executor):
    """Keeps the work that it gets, until the test does it."""

    def __init__(self):
        self.kept = []
        self.done = []

    def submit(self, work, /, *_args, **_kwargs):
        future = Future()
        self.kept.append((work, future))
        return future

    async def work(self):
        """Does one piece."""
        work, future = self.kept.pop()
        assert not self.kept, "one at a time"
        try:
            future.set_result(work())
        except ValueError as error:
            future.set_exception(error)
        for _ in range(5):
            await asyncio.sleep(0)


class World:
    def __init__(self):
        self.threads = Threads()
        self.turns = FairTurns(asyncio.get_running_loop(), self.threads)
        self.checked = []

    def begin(self, instance, what):
        return asyncio.create_task(self.turns.run(instance, lambda: self.checked.append(what)))


@pytest.fixture
async def w():
    return World()


async def test_a_flood_of_one_instance_delays_others_by_one_turn(w):
    tasks = [w.begin(NOISY, f"n{number}") for number in range(50)]
    await asyncio.sleep(0)
    tasks += [w.begin(QUIET, "q0"), w.begin(QUIET, "q1")]
    await asyncio.sleep(0)
    for _ in range(6):
        await w.threads.work()
    assert w.checked == ["n0", "n1", "q0", "n2", "q1", "n3"]
    for _ in range(46):
        await w.threads.work()
    await asyncio.gather(*tasks)
    assert len(w.checked) == 52
    assert w.threads.kept == []


async def test_results_and_errors_are_those_of_the_work(w):
    one = asyncio.create_task(w.turns.run(NOISY, lambda: 7))
    two = asyncio.create_task(w.turns.run(NOISY, lambda: int("seven")))
    await asyncio.sleep(0)
    await w.threads.work()
    await w.threads.work()
    assert await one == 7
    with pytest.raises(ValueError, match="seven"):
        await two


async def test_an_instance_has_a_bound_and_others_have_theirs(w):
    tasks = [w.begin(NOISY, number) for number in range(WAITING_MAX + 1)]
    await asyncio.sleep(0)
    with pytest.raises(LoginsBusy):
        await w.turns.run(NOISY, lambda: None)
    tasks.append(w.begin(QUIET, "q"))
    await asyncio.sleep(0)
    await w.threads.work()
    tasks.append(w.begin(NOISY, "again"))
    await asyncio.sleep(0)
    while w.threads.kept:
        await w.threads.work()
    await asyncio.gather(*tasks)


async def test_who_has_gone_costs_no_turn(w):
    first = w.begin(NOISY, "first")
    gone = w.begin(NOISY, "gone")
    last = w.begin(NOISY, "last")
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    await w.threads.work()
    await w.threads.work()
    await asyncio.gather(first, last)
    assert w.checked == ["first", "last"]
