"""What breaks system calls and disks does so, says when it cannot, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import call_tracer, mounted_disk, node_network
from tests.support.call_tracer import READS, CallTracer
from tests.support.process import wait_until

_TIMEOUT_S = 10.0
_READER = """
import os, sys, time
files = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]
print("ready", flush=True)
while True:
    time.sleep(0.02)
    for number, file in enumerate(files):
        try:
            os.pread(file, 1, 0)
        except OSError as error:
            print(number, error.errno, flush=True)
            sys.exit(3)
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "first", tmp_path / "second"]
    for path in paths:
        path.write_bytes(b"some bytes")
    return paths


@pytest.fixture
def reader(files: list[Path]) -> Iterator[subprocess.Popen[bytes]]:
    """Reads both files again and again, and ends with the first error."""
    if why := call_tracer.missing():
        pytest.skip(why)
    command = [sys.executable, "-c", _READER, *map(str, files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_reads_of_named_files_fail_and_of_no_others(
    files: list[Path], reader: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    output = tmp_path / "trace"
    with CallTracer(reader.pid, "error=EIO", output=output, calls=READS, paths=files[1:]) as tracer:
        wait_until(lambda: reader.poll() is not None, timeout_s=_TIMEOUT_S, what="an error")
    assert reader.returncode == 3
    assert reader.stdout is not None
    assert reader.stdout.read() == b"1 5\n", "the second file, EIO"
    assert len(tracer.changed()) == 1


@pytest.mark.slow
def test_a_tracer_that_ends_before_its_process_is_told(
    reader: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    tracer = CallTracer(reader.pid, "delay_exit=1000", output=tmp_path / "trace")
    tracer.__enter__()
    assert tracer._tracer is not None
    tracer._tracer.terminate()
    tracer._tracer.wait(_TIMEOUT_S)
    with pytest.raises(RuntimeError, match="strace ended"):
        tracer.__exit__(None)
    assert reader.poll() is None


def test_a_kernel_without_loop_devices_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    if why := mounted_disk.missing("mkfs.ext4", "losetup"):
        pytest.skip(why)
    run = mounted_disk._run

    def refusing(*words: str) -> bytes:
        if words[0] == "losetup":
            raise RuntimeError("losetup: cannot find an unused loop device")
        return run(*words)

    monkeypatch.setattr(mounted_disk, "_run", refusing)
    why = mounted_disk.missing.__wrapped__("mkfs.ext4", "losetup")
    assert why == "no file system can be mounted: losetup: cannot find an unused loop device"
    assert mounted_disk.missing.__wrapped__() is None, "a tmpfs needs none"


def test_a_kernel_that_loses_no_packets_by_chance_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    if why := node_network.missing():
        pytest.skip(why)
    run = node_network._run
    made: list[str] = []

    def refusing(*words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        if "statistic" in words:
            raise RuntimeError("iptables: No chain/target/match by that name.")
        if words[:3] == ("ip", "netns", "add"):
            made.append(words[3])
        return run(*words, check=check)

    monkeypatch.setattr(node_network, "_run", refusing)
    why = node_network.missing.__wrapped__()
    assert why is not None
    assert "No chain/target/match" in why
    listed = run("ip", "netns", "list").stdout.decode().split()
    assert len(made) == 2
    assert not set(made).intersection(listed), "nothing is left behind"
