import asyncio
import os
import signal
import sys

import pytest

from highwater.embed.supervisor import child as module
from highwater.embed.supervisor.child import Child, GaveUpError
from highwater.model.errors import UsageError
from highwater.runtime.logging import silent_logger

SLEEP = "import time; time.sleep(60)"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "BACKOFF_S", (0.01, 0.04))
    monkeypatch.setattr(module, "RESTARTS_MAX", 3)


def make(code, changes=None):
    return Child(
        "demo",
        [sys.executable, "-c", code],
        on_pid=(lambda: None) if changes is None else changes,
        log=silent_logger(),
    )


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_killed_process_is_started_again():
    seen = []
    child = make(SLEEP, lambda: seen.append(child.pid))
    running = asyncio.create_task(child.run())
    await until(lambda: child.pid is not None)
    first = child.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: child.pid not in {None, first})
    second = child.pid
    await child.stop(timeout_s=10)
    await running
    assert seen == [first, None, second, None]
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


async def test_deaf_process_is_killed_at_the_deadline():
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True)\n"
    child = make(deaf + SLEEP)
    running = asyncio.create_task(child.run())
    await until(lambda: child.pid is not None)
    await asyncio.sleep(0.5)  # Until it ignores signals.
    await child.stop(timeout_s=0.2)
    await running
    assert child.pid is None


async def test_gives_up_after_too_many_deaths():
    with pytest.raises(GaveUpError, match="demo died 4 times"):
        async with asyncio.timeout(30):
            await make("raise SystemExit(1)").run()


async def test_an_operator_error_at_the_first_start_is_final():
    with pytest.raises(UsageError, match="demo could not start"):
        async with asyncio.timeout(30):
            await make("raise SystemExit(2)").run()


async def test_exit_code_2_after_a_start_is_an_ordinary_death():
    child = make("raise SystemExit(2)")
    child.settled = True
    with pytest.raises(GaveUpError):
        async with asyncio.timeout(30):
            await child.run()


async def test_stop_during_the_pause_ends_it(monkeypatch):
    monkeypatch.setattr(module, "BACKOFF_S", (30.0, 30.0))
    child = make("raise SystemExit(1)")
    deaths = []
    child._on_pid = lambda: deaths.append(child.pid)
    running = asyncio.create_task(child.run())
    await until(lambda: deaths[-1:] == [None])
    await child.stop(timeout_s=1)
    async with asyncio.timeout(5):
        await running


async def test_stop_while_a_process_is_being_started():
    child = make(SLEEP)
    pids = []
    child._on_pid = lambda: pids.append(child.pid)
    running = asyncio.create_task(child.run())
    await asyncio.sleep(0)
    assert child.pid is None
    await child.stop(timeout_s=10)
    async with asyncio.timeout(5):
        await running
    assert pids[-1] is None
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


async def test_a_process_that_cannot_be_started_is_started_later(monkeypatch):
    start = asyncio.create_subprocess_exec
    refusals = [BlockingIOError(11, "Resource temporarily unavailable")]

    async def refuse(*command, **options):
        if refusals:
            raise refusals.pop()
        return await start(*command, **options)

    monkeypatch.setattr(module.asyncio, "create_subprocess_exec", refuse)
    child = make(SLEEP)
    running = asyncio.create_task(child.run())
    await until(lambda: child.pid is not None)
    await child.stop(timeout_s=10)
    await running
