"""A client that is a program: started, read line by line on a thread, ended by its pid."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import IO

from tests.conformance.client import CLIENT_TIMEOUT_S

_STDERR_LINES_MAX = 200


def run_program(
    command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = CLIENT_TIMEOUT_S
) -> bytes:
    """Runs a program to its end and returns its output.

    Raises TimeoutError, and ProgramError when the exit code is not 0.
    """
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        shown = (error.stderr or b"")[-2000:].decode(errors="replace")
        got = len((error.stdout or b"").splitlines())
        raise TimeoutError(f"{command[0]} after {timeout_s} s, {got} lines; {shown}") from error
    if done.returncode != 0:
        raise ProgramError(
            f"{' '.join(command)} exited with {done.returncode}",
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )
    return done.stdout


class ProgramError(AssertionError):
    """A client program failed; `stdout` and `stderr` hold its output."""

    def __init__(self, what: str, stdout: str, stderr: str) -> None:
        super().__init__(f"{what}\n{stdout[-3000:]}\n{stderr[-3000:]}")
        self.stdout = stdout
        self.stderr = stderr


class LineProcess:
    """A running program whose output and error lines are given to callbacks.

    Lifecycle: starts with the object, ends with `close`, which sends SIGTERM and waits. Callbacks
    run on two reader threads.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        on_line: Callable[[str], None],
        on_error_line: Callable[[str], None] | None = None,
    ) -> None:
        self._command = list(command)
        self._on_error_line = on_error_line
        self._error_lines: list[str] = []
        self._failures: list[Exception] = []
        self._closed = False
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(stream, handler), daemon=True)
            for stream, handler in (
                (self._process.stdout, on_line),
                (self._process.stderr, self._keep_error_line),
            )
        ]
        for reader in self._readers:
            reader.start()

    def check(self) -> None:
        """Raises ProgramError if the program has ended, or a line was not understood."""
        if self._failures:
            raise ProgramError(f"{self._command[0]}: {self._failures[0]}", "", self._stderr())
        if not self._closed and self._process.poll() is not None:
            code = self._process.returncode
            raise ProgramError(f"{self._command[0]} ended with {code}", "", self._stderr())

    def write_line(self, line: str) -> None:
        """Sends a line to the program's input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Ends the program with SIGKILL: it does nothing more, not even what it has begun."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Ends the program with SIGTERM and waits for it; SIGKILL and TimeoutError if it hangs."""
        if self._closed:
            return
        self._closed = True
        self._process.terminate()
        try:
            self._process.wait(timeout=CLIENT_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait(timeout=10)
            raise TimeoutError(f"{self._command[0]} ignored SIGTERM\n{self._stderr()}") from error
        finally:
            for reader in self._readers:
                reader.join(timeout=10)
            for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()

    def _stderr(self) -> str:
        return "\n".join(self._error_lines)

    def _read(self, stream: IO[bytes], handle: Callable[[str], None]) -> None:
        for raw in stream:
            try:
                handle(raw.decode().rstrip("\n"))
            except Exception as error:  # noqa: BLE001  # `check` raises it in the test's thread.
                self._failures.append(error)

    def _keep_error_line(self, line: str) -> None:
        if len(self._error_lines) < _STDERR_LINES_MAX:
            self._error_lines.append(line)
        if self._on_error_line is not None:
            self._on_error_line(line)
