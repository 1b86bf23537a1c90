import os
import signal
import subprocess
import sys
import time
from pathlib import Path

WAIT = "import os, sys, time; from highwater.embed.supervisor.parent import die_with;"


def test_dies_when_the_parent_is_killed():
    """The middle process acts as the supervisor: it starts a child and is killed."""
    child = WAIT + "die_with(os.getppid()); print(os.getpid(), flush=True); time.sleep(60)"
    parent = f"import subprocess, sys;subprocess.run([sys.executable, '-c', {child!r}], timeout=60)"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as middle:
        pid = int(middle.stdout.readline())
        os.kill(middle.pid, signal.SIGKILL)
        middle.wait(10)
        deadline = time.monotonic() + 10
        while _is_running(pid):
            assert time.monotonic() < deadline, "the child outlived its parent"
            time.sleep(0.02)


def test_a_child_whose_parent_has_ended_ends():
    done = subprocess.run(
        [sys.executable, "-c", WAIT + "die_with(1); print('still here')"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
