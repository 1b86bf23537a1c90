import resource
import subprocess
import sys
import textwrap

import pytest

from highwater.runtime.descriptors import raise_descriptor_limit

LOW = 64

# Runs a service as `highwater` does, with twice as many descriptors as the first limit.
PROGRAM = """
    import asyncio, os, resource, signal, sys
    from highwater.runtime.lifecycle import run
    from highwater.runtime.logging import LogSettings, make_logger

    class Holds:
        async def start(self):
            self.failed = asyncio.get_running_loop().create_future()
            self.held = [os.open("/dev/null", os.O_RDONLY) for _ in range(2 * LOW)]
            print(len(self.held), *resource.getrlimit(resource.RLIMIT_NOFILE))
            os.kill(os.getpid(), signal.SIGTERM)

        async def stop(self):
            pass

    async def build():
        return Holds()

    LOW = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (LOW, int(sys.argv[2])))
    sys.exit(run(build, make_logger(LogSettings(level="debug", format="json"))))
"""


class Lines:
    """A logger that keeps its debug lines."""

    def __init__(self):
        self.lines = []

    def debug(self, event, **values):
        self.lines.append((event, values))


def test_a_service_that_starts_with_few_descriptors_gets_as_many_as_allowed():
    hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 4 * LOW)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(LOW), str(hard)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{2 * LOW} {hard} {hard}\n" in done.stdout
    assert "descriptor_limit_raised" in done.stdout + done.stderr


@pytest.mark.parametrize("error", [OSError("not here"), ValueError("exceeds the maximum")])
def test_a_system_that_refuses_leaves_the_limit(monkeypatch, error):
    def refuse(*_):
        raise error

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    log = Lines()
    assert raise_descriptor_limit(log) == 1024
    (line,) = log.lines
    assert line == ("descriptor_limit_kept", {"soft": 1024, "hard": 4096, "error": str(error)})


def test_limits_at_their_maximum_are_left_alone(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4096, 4096))
    log = Lines()
    assert raise_descriptor_limit(log) == 4096
    assert log.lines == []
