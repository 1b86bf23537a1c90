"""Long work yields to the loop between its slices."""

from __future__ import annotations

import asyncio

import pytest

from highwater.model.steps import Steps
from highwater.runtime.slices import Slices


class Machine:
    """A clock that only steps advance."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.seen: list[object] = []

    def work(self, steps: int, ms: float) -> Steps[str]:
        for number in range(steps):
            self.now_ms += ms
            self.seen.append(number)
            yield
        return "done"

    async def other(self) -> None:
        while "stop" not in self.seen:
            self.seen.append("other")
            await asyncio.sleep(0)


async def test_steps_that_fit_one_slice_run_at_once() -> None:
    machine = Machine()
    other = asyncio.create_task(machine.other())
    assert await Slices(lambda: machine.now_ms, slice_ms=2).run(machine.work(3, 0.5)) == "done"
    assert machine.seen == [0, 1, 2]
    other.cancel()


async def test_others_run_between_slices() -> None:
    machine = Machine()
    other = asyncio.create_task(machine.other())
    assert await Slices(lambda: machine.now_ms, slice_ms=2).run(machine.work(5, 1)) == "done"
    machine.seen.append("stop")
    await other
    assert machine.seen[:9] == [0, 1, "other", 2, 3, "other", 4, "stop"]


async def test_a_step_that_fails_is_the_caller_s() -> None:
    def broken() -> Steps[None]:
        yield
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await Slices(lambda: 0).run(broken())


async def test_cancelled_steps_can_be_continued() -> None:
    machine = Machine()
    slices = Slices(lambda: machine.now_ms, slice_ms=1)
    work = machine.work(4, 1)
    first = asyncio.create_task(slices.run(work))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert machine.seen == [0]
    assert await slices.run(work) == "done"
    assert machine.seen == [0, 1, 2, 3]


async def test_one_slice_in_a_turn_whoever_s_work_it_is() -> None:
    machine = Machine()
    other = asyncio.create_task(machine.other())
    slices = Slices(lambda: machine.now_ms, slice_ms=2)
    await slices.run(machine.work(1, 1))
    await slices.run(machine.work(3, 1))
    machine.seen.append("stop")
    await other
    assert machine.seen[:6] == [0, 0, "other", 1, 2, "other"]


async def test_work_that_comes_meanwhile_takes_turns() -> None:
    machine = Machine()
    slices = Slices(lambda: machine.now_ms, slice_ms=2)

    def work(name: str) -> Steps[None]:
        for _ in range(4):
            machine.now_ms += 1
            machine.seen.append(name)
            yield

    await asyncio.gather(*(slices.run(work(name)) for name in "ab"))
    assert "".join(map(str, machine.seen)) == "aabbaabb"


async def test_work_that_is_cancelled_lets_others_go_on() -> None:
    machine = Machine()
    slices = Slices(lambda: machine.now_ms, slice_ms=1)
    first = asyncio.create_task(slices.run(machine.work(9, 1)))
    second = asyncio.create_task(slices.run(machine.work(2, 1)))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "done"
    with pytest.raises(asyncio.CancelledError):
        await first
