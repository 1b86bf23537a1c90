"""One process of a supervised cluster: started, started again when it dies, stopped."""

import asyncio
import signal
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from highwater.model.errors import EXIT_FAILED, EXIT_USAGE, HighwaterError, UsageError
from highwater.runtime.logging import Logger

BACKOFF_S: Final = (0.2, 5.0)
"""First and longest pause before a process that died is started again."""

HEALTHY_S: Final = 30.0
"""A process that lived this long begins with the first pause again."""

RESTARTS_MAX: Final = 20
RESTARTS_WINDOW_S: Final = 120.0
"""After more deaths than this within the window the cluster gives up."""

KILL_WAIT_S: Final = 5.0


class GaveUpError(HighwaterError):
    """A process died again and again."""

    reason = "CHILD_GAVE_UP"


class Child:
    """One process. `run` returns after `stop`; it raises UsageError or GaveUpError before."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        on_pid: Callable[[], None],
        log: Logger,
    ) -> None:
        """`on_pid` is called whenever `pid` has changed."""
        self.name = name
        self._command = tuple(command)
        self._on_pid = on_pid
        self._log = log.bind(process=name)
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()
        self.settled = False
        """Set by the owner once the cluster has served: from then on the process is restarted after
        exit code 2, too (for example while its port is still taken)."""

    @property
    def pid(self) -> int | None:
        """The pid of the running process, None between two."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """See the class."""
        loop = asyncio.get_running_loop()
        deaths: deque[float] = deque()
        pause_s = BACKOFF_S[0]
        while not self._stopping.is_set():
            started = loop.time()
            code = await self._run_once()
            if self._stopping.is_set():
                return
            self._log.warning("process_ended", exit_code=code)
            if code == EXIT_USAGE and not self.settled:
                raise UsageError(f"{self.name} could not start; its own line above says why")
            now = loop.time()
            deaths.append(now)
            while deaths[0] < now - RESTARTS_WINDOW_S:
                deaths.popleft()
            if len(deaths) > RESTARTS_MAX:
                raise GaveUpError(
                    f"{self.name} died {len(deaths)} times within {RESTARTS_WINDOW_S:.0f} s"
                )
            if now - started > HEALTHY_S:
                pause_s = BACKOFF_S[0]
            await self._pause(pause_s)
            pause_s = min(pause_s * 2, BACKOFF_S[1])

    async def stop(self, *, timeout_s: float) -> None:
        """SIGTERM, and SIGKILL when the process has not ended in time."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            self._log.warning("process_killed", timeout_s=timeout_s)
            self._signal(signal.SIGKILL)
            async with asyncio.timeout(KILL_WAIT_S):
                await self._ended.wait()

    async def _run_once(self) -> int:
        self._ended.clear()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                # Ctrl-C reaches a terminal's whole process group; the supervisor stops in order.
                start_new_session=True,
            )
        except OSError as error:
            # The system may lack processes or memory, or the program is being replaced.
            self._log.warning("process_not_started", error=str(error))
            self._ended.set()
            return EXIT_FAILED
        except asyncio.CancelledError:
            self._ended.set()
            raise
        try:
            self._on_pid()
            if self._stopping.is_set():
                self._signal(signal.SIGTERM)  # `stop` was called before the process existed.
            return await self._process.wait()
        finally:
            self._process = None
            self._ended.set()
            self._on_pid()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        try:
            self._process.send_signal(number)
        except ProcessLookupError:
            return  # The process has ended by itself.

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
