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
from tests.support.measured_process import cpu_seconds, minor_faults, process_tree


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


def test_processor_time_is_that_of_all_threads_and_descendants() -> None:
    """A shell whose child has used it in a thread; both wait then."""
    code = (
        "import threading, time\n"
        "def work():\n"
        "    while time.thread_time() < 0.2: pass\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "thread.join()\n"
        "print('done', flush=True)\n"
        "time.sleep(30)\n"
    )
    command = ["sh", "-c", '"$@"; exit', "sh", sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"done\n"
        used = cpu_seconds(shell.pid)
        assert 0.2 < used < 5
        # Sleeping costs less than one of the steps of /proc/PID/stat.
        assert cpu_seconds(shell.pid) - used < 0.01
        pids = set(process_tree(shell.pid)) - {shell.pid}
        assert len(pids) == 1
        for pid in (*pids, shell.pid):
            os.kill(pid, signal.SIGKILL)
    assert cpu_seconds(shell.pid) == 0  # The tree of a process that has ended is empty.


def test_page_faults_are_those_of_all_descendants() -> None:
    pages = 2_000
    code = (
        "import mmap, sys\n"
        "memory = mmap.mmap(-1, int(sys.argv[1]) * mmap.PAGESIZE)\n"
        "memory.madvise(mmap.MADV_NOHUGEPAGE)\n"
        "print('mapped', flush=True)\n"
        "sys.stdin.readline()\n"
        "for i in range(0, len(memory), mmap.PAGESIZE): memory[i] = 1\n"
        "print('touched', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    command = ["sh", "-c", '"$@"; exit', "sh", sys.executable, "-c", code, str(pages)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"mapped\n"
        before = minor_faults(shell.pid)
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == b"touched\n"
        # Python itself touches some more.
        assert pages <= minor_faults(shell.pid) - before < pages + 500
    assert minor_faults(shell.pid) == 0


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
