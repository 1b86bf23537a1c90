"""Conversions run in order, on the loop or on their thread, and count in the budget."""

import asyncio
import threading

import pytest

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.data_plane.conversions import (
    DECOMPRESSED_BYTES_MAX,
    ON_LOOP_BYTES_MAX,
    Conversion,
    Conversions,
    decompressed_bytes_max,
)

LARGE = ON_LOOP_BYTES_MAX + 1


class World:
    def __init__(self):
        self.budget = MemoryBudget(1 << 20)
        self.conversions = Conversions("test", self.budget)
        self.done, self.failed, self.threads = [], [], []
        self.gate = threading.Event()
        self.gate.set()

    def run(self, name, nbytes, error=None):
        def work():
            self.threads.append(threading.current_thread().name)
            assert self.gate.wait(10)
            if error is not None:
                raise error
            return name

        self.conversions.run(Conversion(nbytes, work, self.done.append, self.failed.append))

    async def until(self, count):
        async with asyncio.timeout(10):
            while len(self.done) + len(self.failed) < count:
                await asyncio.sleep(0.001)


@pytest.fixture
async def w():
    made = World()
    yield made
    made.gate.set()
    made.conversions.close()
    await asyncio.sleep(0.01)
    assert made.budget.used == 0


async def test_little_work_is_done_at_once(w):
    w.run("a", ON_LOOP_BYTES_MAX)
    assert w.done == ["a"]
    assert w.threads == [threading.current_thread().name]


async def test_much_work_is_done_on_a_thread_and_counted_meanwhile(w):
    w.gate.clear()
    w.run("a", LARGE)
    assert w.done == []
    assert w.budget.used == LARGE
    w.gate.set()
    await w.until(1)
    assert w.done == ["a"]
    assert w.threads[0].startswith("test")
    assert w.budget.used == 0


async def test_little_work_waits_behind_much(w):
    w.gate.clear()
    w.run("a", LARGE)
    w.run("b", 1)
    w.run("c", LARGE)
    assert w.budget.used == LARGE  # Those that wait hold nothing but their requests.
    w.gate.set()
    await w.until(3)
    assert w.done == ["a", "b", "c"]


async def test_what_a_result_starts_waits_behind_those_that_are_here(w):
    w.conversions.run(
        Conversion(LARGE, lambda: "a", lambda result: w.run("late", 1), w.failed.append)
    )
    w.run("b", LARGE)
    await w.until(2)
    assert w.done == ["b", "late"]


@pytest.mark.parametrize("nbytes", [1, LARGE])
async def test_a_bug_is_told_and_the_next_one_runs(w, nbytes):
    bug = ZeroDivisionError()
    w.run("a", nbytes, error=bug)
    w.run("b", nbytes)
    await w.until(2)
    assert (w.done, w.failed) == (["b"], [bug])


@pytest.mark.parametrize("nbytes", [1, LARGE])
async def test_a_bug_with_a_result_is_told_too(w, nbytes):
    bug = KeyError()

    def broken(result):
        raise bug

    w.conversions.run(Conversion(nbytes, lambda: "a", broken, w.failed.append))
    await w.until(1)
    assert w.failed == [bug]


async def test_after_close_nobody_is_called(w):
    w.gate.clear()
    w.run("a", LARGE)
    w.run("b", LARGE)
    w.conversions.close()
    w.gate.set()
    await asyncio.sleep(0.05)
    assert (w.done, w.failed) == ([], [])


def test_the_limit_is_a_part_of_the_budget():
    assert decompressed_bytes_max(MemoryBudget(1 << 30)) == DECOMPRESSED_BYTES_MAX
    assert decompressed_bytes_max(MemoryBudget(8 << 20)) == 1 << 20
