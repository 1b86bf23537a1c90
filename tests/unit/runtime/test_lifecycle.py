import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from highwater.model.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, PortInUseError
from highwater.runtime.collector import THRESHOLDS
from highwater.runtime.lifecycle import run
from highwater.runtime.logging import silent_logger


@pytest.fixture(autouse=True)
def collected(monkeypatch):
    """What was asked of the garbage collector, instead of doing it in the tests' process."""
    calls = []
    monkeypatch.setattr(gc, "set_threshold", lambda *thresholds: calls.append(thresholds))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    return calls


class Scripted:
    """A service whose start and stop do what the test says."""

    def __init__(self, journal, name="s", on_start=None, on_stop=None):
        self.journal, self.name = journal, name
        self.on_start, self.on_stop = on_start, on_stop
        self.failed = asyncio.get_running_loop().create_future()

    async def start(self):
        self.journal.append(f"start {self.name}")
        if self.on_start:
            await self.on_start(self)

    async def stop(self):
        self.journal.append(f"stop {self.name}")
        if self.on_stop:
            await self.on_stop(self)


def run_scripted(journal, **script):
    timeout_s = script.pop("stop_timeout_s", 5)

    async def build():
        return Scripted(journal, **script)

    return run(build, silent_logger(), stop_timeout_s=timeout_s)


async def terminate(_service):
    os.kill(os.getpid(), signal.SIGTERM)


async def interrupt(_service):
    os.kill(os.getpid(), signal.SIGINT)


async def forever(_service):
    await asyncio.Event().wait()


async def port_taken(_service):
    raise PortInUseError("127.0.0.1:9092")


async def fail_later(service):
    asyncio.get_running_loop().call_soon(service.failed.set_exception, OSError("disk"))


@pytest.mark.parametrize("ask", [terminate, interrupt])
def test_a_signal_stops_in_order(ask):
    journal = []
    assert run_scripted(journal, on_start=ask) == EXIT_OK
    assert journal == ["start s", "stop s"]


def test_what_has_started_is_frozen(collected):
    async def started(service):
        collected.append("start")
        await terminate(service)

    assert run_scripted([], on_start=started) == EXIT_OK
    assert collected == [THRESHOLDS, "start", "freeze"]


def test_what_could_not_start_is_not_frozen(collected):
    assert run_scripted([], on_start=port_taken) == EXIT_USAGE
    assert collected == [THRESHOLDS]


def test_a_signal_during_a_long_start():
    journal = []

    async def long_start(service):
        await terminate(service)
        await forever(service)

    assert run_scripted(journal, on_start=long_start) == EXIT_OK
    assert journal == ["start s", "stop s"]


def test_a_failure_ends_the_process_after_a_stop():
    journal = []
    assert run_scripted(journal, on_start=fail_later) == EXIT_FAILED
    assert journal == ["start s", "stop s"]


def test_operator_errors_are_one_line_and_exit_code_2(capsys):
    journal = []
    assert run_scripted(journal, on_start=port_taken) == EXIT_USAGE
    assert journal == ["start s", "stop s"]
    assert capsys.readouterr().err == (
        "highwater: address 127.0.0.1:9092 is already in use by another process\n"
    )


def test_a_stop_that_hangs_meets_the_deadline():
    assert run_scripted([], on_start=terminate, on_stop=forever, stop_timeout_s=0.05) == EXIT_FAILED


def test_a_second_signal_ends_at_once():
    program = textwrap.dedent("""
        import asyncio, os, signal
        from highwater.runtime.lifecycle import run
        from highwater.runtime.logging import silent_logger

        class Hangs:
            async def start(self):
                self.failed = asyncio.get_running_loop().create_future()
                os.kill(os.getpid(), signal.SIGTERM)

            async def stop(self):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(60)

        async def build():
            return Hangs()

        run(build, silent_logger(), stop_timeout_s=60)
    """)
    ended = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert ended.returncode == EXIT_FAILED
