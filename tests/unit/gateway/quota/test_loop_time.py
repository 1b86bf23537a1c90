"""The loop's time of a coroutine, by a clock that only its steps move."""

import asyncio

import pytest

from highwater.gateway.quota.loop_time import LoopTime, timed


class Clock:
    def __init__(self):
        self.ns = 0

    def __call__(self):
        return self.ns


async def test_only_steps_count():
    clock = Clock()
    time = LoopTime(clock)
    seen = []

    async def work():
        clock.ns += 5
        await asyncio.sleep(0)
        clock.ns += 7
        seen.append(time.spent_ns())
        clock.ns += 1
        return "done"

    async def others():
        clock.ns += 1000

    made, _ = await asyncio.gather(timed(work, time), others())
    assert made == "done"
    assert seen == [12], "the step that has not ended counts"
    assert time.spent_ns() == 13
    clock.ns += 1000
    assert time.spent_ns() == 13


async def test_errors_and_results_pass():
    async def work():
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(fails(), 1)
        return await asyncio.sleep(0, 3)

    async def fails():
        await asyncio.sleep(0)
        raise ZeroDivisionError

    assert await timed(work, LoopTime(Clock())) == 3

    async def broken():
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await timed(broken, LoopTime(Clock()))


async def test_a_cancellation_reaches_the_coroutine():
    ended = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(timed(work, LoopTime(Clock())))
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert ended == [True]
