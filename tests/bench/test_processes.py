from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.bench.processes import state, wait_until_ended, wait_until_stopped
from tests.support.maven import REPOSITORY


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "30"]) as process:
        yield process
        process.kill()


def test_a_stopped_process_is_recognised(sleeper: subprocess.Popen[bytes]) -> None:
    before = time.monotonic()
    os.kill(sleeper.pid, signal.SIGSTOP)
    assert before <= wait_until_stopped(sleeper.pid, 5.0) <= time.monotonic()
    assert state(sleeper.pid) == "T"


def test_a_dead_process_has_ended_before_its_exit_code_is_read(
    sleeper: subprocess.Popen[bytes],
) -> None:
    os.kill(sleeper.pid, signal.SIGKILL)
    wait_until_ended(sleeper.pid, 5.0)
    assert state(sleeper.pid) == "Z"
    sleeper.wait(5.0)
    assert state(sleeper.pid) == "X"


def test_a_process_that_keeps_running_raises(sleeper: subprocess.Popen[bytes]) -> None:
    with pytest.raises(TimeoutError, match=f"process {sleeper.pid} did not end within 0.05 s"):
        wait_until_ended(sleeper.pid, 0.05)


def test_sigterm_cleans_up() -> None:
    code = (
        "import time\n"
        "from tests.bench.processes import end_orderly_on_sigterm\n"
        "end_orderly_on_sigterm()\n"
        "try:\n"
        "    print('running', flush=True)\n"
        "    time.sleep(30)\n"
        "finally:\n"
        "    print('cleaned')\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        process.terminate()
        assert process.communicate(timeout=10)[0] == b"cleaned\n"
        assert process.returncode == 128 + signal.SIGTERM
