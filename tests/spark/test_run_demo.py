"""`make run` as a user starts it: twice on the same data, interrupted, and on a port that is taken.

The demo starts its own broker, so these tests take no `cluster`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from tests.support.maven import REPOSITORY
from tests.support.process import (
    ManagedProcess,
    accepts_connections,
    free_port_block,
    wait_until,
)

HOST = "127.0.0.1"
ROUND_TIMEOUT_S = 300
QUICK_TIMEOUT_S = 60


@pytest.fixture
def port() -> int:
    return free_port_block(8, HOST)


def command(directory: Path, port: int, *more: str) -> list[str]:
    return [
        sys.executable, str(REPOSITORY / "tools" / "run_demo.py"), "--port", str(port),
        "--data-dir", str(directory / "data"), "--output-dir", str(directory / "out"), *more,
    ]  # fmt: skip


def finish(
    directory: Path, port: int, *more: str, timeout_s: float = ROUND_TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(directory, port, *more),
        capture_output=True, text=True, timeout=timeout_s, check=False, cwd=REPOSITORY,
    )  # fmt: skip


@pytest.fixture
def demo(tmp_path: Path, port: int) -> Iterator[ManagedProcess]:
    """The demo that serves on after its report; not started."""
    process = ManagedProcess("demo", command(tmp_path, port), log_path=tmp_path / "demo.log")
    yield process
    process.stop()


@pytest.mark.spark
@pytest.mark.timeout(ROUND_TIMEOUT_S + QUICK_TIMEOUT_S + 60)
def test_it_leaves_its_page_and_serves_until_ctrl_c(
    connector: Path, tmp_path: Path, port: int, demo: ManagedProcess
) -> None:
    shown = serve_until_ctrl_c(demo, port)
    assert shown.count("✓") == 14
    assert "✗" not in shown
    assert_looks_whole(tmp_path, shown)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.timeout(2 * ROUND_TIMEOUT_S + QUICK_TIMEOUT_S + 60)
def test_twice_on_the_same_data(
    connector: Path, tmp_path: Path, port: int, demo: ManagedProcess
) -> None:
    once = finish(tmp_path, port, "--once")
    assert once.returncode == 0, once.stdout + once.stderr
    assert once.stdout.count("✓") == 14
    assert "✗" not in once.stdout
    assert "Serving on" not in once.stdout
    assert not accepts_connections(HOST, port)
    assert_looks_whole(tmp_path, once.stdout)

    shown = serve_until_ctrl_c(demo, port)
    assert "10,000 of 10,000 (earlier runs: 10,000)" in shown
    assert "there from an earlier run" in shown


def serve_until_ctrl_c(demo: ManagedProcess, port: int) -> str:
    """What a demo writes until it serves; then Ctrl-C ends it."""
    demo.start()
    serving = f"Serving on {HOST}:{port}"
    wait_until(
        lambda: not demo.running or serving in demo.log_tail(),
        timeout_s=ROUND_TIMEOUT_S,
        what="the demo serving",
    )
    shown = demo.log_path.read_text(encoding="utf-8")
    assert serving in shown
    assert accepts_connections(HOST, port)
    os.kill(demo.pid, signal.SIGINT)
    wait_until(lambda: not demo.running, timeout_s=QUICK_TIMEOUT_S, what="the demo's end")
    assert demo.stop() == 0
    assert not accepts_connections(HOST, port)
    return shown


def assert_looks_whole(directory: Path, shown: str) -> None:
    """A run leaves a picture and a page of all that it did, and says where."""
    left = directory / "out" / "access_log"
    assert (left / "access_log.png").stat().st_size > 20_000
    assert str(left / "index.html") in shown[shown.index("To look at") :]
    page = (left / "index.html").read_text(encoding="utf-8")
    for part in ("Traffic in topic access_log", "Load into the table", "The table against the log"):
        assert part in page


@pytest.mark.slow
@pytest.mark.timeout(3 * QUICK_TIMEOUT_S)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_on_the_way_ends_the_broker_too(
    demo: ManagedProcess, port: int, number: signal.Signals, code: int
) -> None:
    demo.start()
    wait_until(
        lambda: not demo.running or "Starting the broker" in demo.log_tail(),
        timeout_s=QUICK_TIMEOUT_S,
        what="the broker",
    )
    assert accepts_connections(HOST, port), demo.log_tail()
    os.kill(demo.pid, number)
    wait_until(lambda: not demo.running, timeout_s=QUICK_TIMEOUT_S, what="the demo's end")
    assert demo.stop() == code
    assert not accepts_connections(HOST, port)


@pytest.mark.slow
@pytest.mark.timeout(3 * QUICK_TIMEOUT_S)
def test_a_busy_port_is_one_line_and_code_2(tmp_path: Path, port: int) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, port))
        taken.listen()
        done = finish(tmp_path, port, "--once", timeout_s=QUICK_TIMEOUT_S)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{HOST}:{port} is in use" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
@pytest.mark.timeout(3 * QUICK_TIMEOUT_S)
def test_a_data_directory_that_is_none_is_one_line_and_code_2(tmp_path: Path, port: int) -> None:
    (tmp_path / "data").write_text("a file")
    done = finish(tmp_path, port, "--once", timeout_s=QUICK_TIMEOUT_S)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert str(tmp_path / "data") in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3 * QUICK_TIMEOUT_S)
def test_a_log_that_is_missing_is_one_line_and_code_2(tmp_path: Path, port: int) -> None:
    missing = tmp_path / "no.log"
    done = finish(tmp_path, port, "--log-file", str(missing), timeout_s=QUICK_TIMEOUT_S)
    assert done.returncode == 2
    assert done.stderr == f"highwater demo: cannot read {missing}: No such file or directory\n"
