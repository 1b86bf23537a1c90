"""The node's handle on a cleaning child process (`child`): start, read reports, kill, reap.

Reading, decompressing and rewriting a log takes seconds of CPU time, which would block the node's
loop. A thread would compete with the loop for the interpreter, so the child is a process.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from typing import Final

from highwater.partition.storage.cleaning.job import (
    LINE_BYTES_MAX,
    CleaningJob,
    Report,
    decode_report,
    encode_job,
)

COMMAND: Final = (sys.executable, "-m", "highwater.partition.storage.cleaning.child")
SILENCE_S_MAX: Final = 120.0
"""A report comes every few MiB; if none comes for so long, the disk or the child hangs."""
PASS_S_MAX: Final = 6 * 3600.0
"""Limit of one pass over one log; the time that a rate limit costs is added."""
_PASSED_MAX: Final = 3
"""Each byte is read for the offset map, read again for the copy, and written."""
END_S_MAX: Final = 10.0
"""A killed process ends within this time, unless it hangs in the kernel."""


class ChildError(Exception):
    """The child ended early, hung, or sent an invalid report."""


def pass_s_max(job: CleaningJob) -> float:
    """How long a pass may take, including the time that its rate limit costs."""
    if not job.io_bytes_per_s:
        return PASS_S_MAX
    nbytes = sum(size for _, _, size in job.segments)
    return PASS_S_MAX + _PASSED_MAX * nbytes / job.io_bytes_per_s


class CleanerProcess:
    """One child for one job: `start`, `next_report` until the last one, `end` in every case."""

    def __init__(
        self, command: Sequence[str] = COMMAND, *, silence_s_max: float = SILENCE_S_MAX
    ) -> None:
        """`command` gets this process's id as its last argument."""
        self._command = command
        self._silence_s_max = silence_s_max
        self._process: Process | None = None
        self._deadline_s = 0.0

    @property
    def pid(self) -> int | None:
        """The child's process id; None if there is none."""
        return None if self._process is None else self._process.pid

    async def start(self, job: CleaningJob) -> None:
        """Start the child and give it its job. Raises ChildError, OSError."""
        loop = asyncio.get_running_loop()
        self._deadline_s = loop.time() + pass_s_max(job)
        self._process = await asyncio.create_subprocess_exec(
            *self._command, str(os.getpid()), stdin=PIPE, stdout=PIPE, limit=LINE_BYTES_MAX
        )
        assert self._process.stdin is not None
        self._process.stdin.write(encode_job(job))
        try:
            await asyncio.wait_for(self._process.stdin.drain(), self._silence_s_max)
            self._process.stdin.close()
        except (ConnectionError, TimeoutError) as error:
            raise ChildError(f"it took no job: {error!r}") from error

    async def next_report(self) -> Report:
        """The child's next report. Raises ChildError."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        left_s = self._deadline_s - asyncio.get_running_loop().time()
        try:
            line = await asyncio.wait_for(
                process.stdout.readline(), max(min(left_s, self._silence_s_max), 0)
            )
            if not line:
                code = await asyncio.wait_for(process.wait(), END_S_MAX)
                raise ChildError(f"it ended with code {code} before its work did")
            return decode_report(line)
        except TimeoutError as error:
            raise ChildError("it takes too long, or hangs") from error
        except ValueError as error:
            raise ChildError(str(error)) from error

    def kill(self) -> None:
        """End the child at once; `end` reaps it."""
        if self._process is not None and self._process.returncode is None:
            try:
                self._process.kill()
            except ProcessLookupError:
                return  # It has just ended.

    async def end(self) -> bool:
        """Kill the child if it still runs and reap it; False if it does not end.

        A cancellation takes effect only after that, since nobody else would reap the child.
        """
        if self._process is None:
            return True
        self.kill()
        deadline_s = asyncio.get_running_loop().time() + END_S_MAX
        cancelled: asyncio.CancelledError | None = None
        while self._process.returncode is None:
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._process.wait()
            except TimeoutError:
                break
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        return self._process.returncode is not None
