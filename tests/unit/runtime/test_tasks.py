import asyncio

import pytest

from highwater.runtime.tasks import TaskOwner


class Failures(list):
    def __call__(self, name, error):
        self.append((name, error))


async def test_a_failure_is_reported_once_with_the_task_name():
    failures = Failures()
    owner = TaskOwner(failures)
    error = ValueError("broken")

    async def fail():
        raise error

    task = owner.start(fail(), name="fails")
    await asyncio.wait((task,))
    assert failures == [("fails", error)]
    assert len(owner) == 0


async def test_close_cancels_and_waits():
    failures = Failures()
    owner = TaskOwner(failures)
    ended = []

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    owner.start(wait(), name="waits")
    await asyncio.sleep(0)
    assert await owner.close(timeout_s=1)
    assert ended == [True]
    assert failures == []


async def test_close_reports_tasks_that_ignore_it():
    owner = TaskOwner(Failures())
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    owner.start(stubborn(), name="stubborn")
    await asyncio.sleep(0)
    assert not await owner.close(timeout_s=0.01)
    release.set()
    assert await owner.close(timeout_s=1)


async def test_a_task_may_close_its_own_owner():
    owner = TaskOwner(Failures())

    async def close_myself():
        return await owner.close(timeout_s=1)

    assert await owner.start(close_myself(), name="closer")


async def test_nothing_starts_after_close_or_above_the_limit():
    owner = TaskOwner(Failures(), tasks_max=1)
    owner.start(asyncio.sleep(10), name="first")
    with pytest.raises(RuntimeError, match="1 tasks are running"):
        owner.start(asyncio.sleep(10), name="second")
    await owner.close(timeout_s=1)
    with pytest.raises(RuntimeError, match="closed"):
        owner.start(asyncio.sleep(10), name="third")


async def test_a_task_that_has_ended_makes_room_before_its_callbacks_run():
    owner = TaskOwner(Failures(), tasks_max=1)
    first = owner.start(asyncio.sleep(0), name="first")
    started = []

    def start_another():
        if not first.done():
            loop.call_soon(start_another)
        else:
            started.append((len(owner), owner.start(asyncio.sleep(0), name="second")))

    loop = asyncio.get_running_loop()
    loop.call_soon(start_another)
    await first
    ((before, second),) = started
    assert before == 1, "the first one's callbacks have not run"
    await second
