"""Makes system calls of a running process fail or take longer, by attaching strace.

Needs root.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Self

from tests.support.process import wait_until

ATTACH_S_MAX = 10.0
ALIVE_S = 1.0
"""A tracer with an impossible order ends at once; one that lives this long works."""

SYNCS = "fsync,fdatasync"
READS = "pread64,preadv,preadv2,openat"
"""Calls on files that are open, or opened by full path; mapped files are read without calls."""

_CHANGED = ("(INJECTED)", "(DELAYED)")
_DETACH_S_MAX = 10.0


@cache
def missing() -> str | None:
    """Why calls cannot be changed here, or None. Tries it once, on a process of its own."""
    if shutil.which("strace") is None:
        return "no strace on the path; on Debian: apt-get install strace"
    if os.geteuid() != 0:
        return "attaching to a process needs root"
    tried = subprocess.Popen(["sleep", "60"])
    try:
        with tempfile.TemporaryDirectory() as directory:
            tracer = CallTracer(tried.pid, "delay_exit=1000", output=Path(directory) / "trace")
            with tracer:
                return None
    except (RuntimeError, TimeoutError) as error:
        return f"strace does not attach: {error}"
    finally:
        tried.kill()
        tried.wait(10)


class CallTracer:
    """A context manager: strace is attached to all threads from its beginning to its end.

    Raises RuntimeError, at the beginning or the end, if strace has ended by itself; not if the
    process has ended, as an injected error may cause that.
    """

    def __init__(
        self,
        pid: int,
        injection: str,
        *,
        output: Path,
        calls: str = SYNCS,
        paths: Iterable[Path] = (),
    ) -> None:
        """`injection` is strace's, as `delay_exit=200000` (µs) or `error=EIO:when=1`. With `paths`
        only calls that touch one of those files are changed.
        """
        self._pid = pid
        self._output = output
        self._errors = output.with_suffix(".errors")
        self._command = [
            *("strace", "-f", "-q", "-o", str(output), "-p", str(pid)),
            *("-e", f"trace={calls}", "-e", f"inject={calls}:{injection}"),
            *(word for path in paths for word in ("-P", str(path.resolve()))),
        ]
        self._tracer: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        begun = time.monotonic()
        with self._errors.open("wb") as errors:
            self._tracer = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        try:
            wait_until(self._is_attached, timeout_s=ATTACH_S_MAX, what="strace attached")
            while time.monotonic() < begun + ALIVE_S:
                self._check()
                time.sleep(0.05)
        except BaseException:
            self._detach()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._check()
        finally:
            self._detach()

    def changed(self) -> list[str]:
        """The calls that failed or took longer, as strace prints them."""
        with self._output.open(encoding="utf-8", errors="replace") as lines:
            return [line.strip() for line in lines if any(word in line for word in _CHANGED)]

    def _is_attached(self) -> bool:
        self._check()
        assert self._tracer is not None
        if self._tracer.poll() is not None:
            return True
        status = Path(f"/proc/{self._pid}/status").read_text()
        return f"TracerPid:\t{self._tracer.pid}\n" in status

    def _check(self) -> None:
        assert self._tracer is not None
        if (code := self._tracer.poll()) is not None and (code or self._process_lives()):
            told = self._errors.read_text(errors="replace").strip()
            raise RuntimeError(f"strace ended with {code}: {told or 'it says nothing'}")

    def _process_lives(self) -> bool:
        """False for a zombie, too."""
        try:
            status = Path(f"/proc/{self._pid}/stat").read_text()
        except FileNotFoundError:
            return False
        return status.rpartition(")")[2].split()[0] != "Z"

    def _detach(self) -> None:
        """Sends strace SIGINT: it detaches from the process, which runs on."""
        assert self._tracer is not None
        if self._tracer.poll() is None:
            self._tracer.send_signal(signal.SIGINT)
        try:
            self._tracer.wait(_DETACH_S_MAX)
        except subprocess.TimeoutExpired:
            self._tracer.kill()
            self._tracer.wait(_DETACH_S_MAX)
