"""An asyncio loop on the simulated clock, so that the product's coordinators run as they are.

It belongs to one process: what it was to do is dropped when the process ends, and waits while it is
paused. Work for threads is done at once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess

T = TypeVar("T")

PAUSED_MS = 20


class SimLoop(asyncio.AbstractEventLoop):
    """Of one process, from its start to its end."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process
        self._world = process.world
        self._ready: deque[asyncio.Handle] = deque()
        self._coroutines: list[Coroutine[Any, Any, Any]] = []

    def run(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function that asks for the running loop."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            return function(*args)
        finally:
            asyncio._set_running_loop(before)

    def drop(self) -> None:
        """The simulation is over: tasks that have not begun never will."""
        for coroutine in self._coroutines:
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()
        self._coroutines.clear()

    # ---- what asyncio asks ----

    def time(self) -> float:
        return self._world.now / 1000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]  # the base ties callbacks to their arguments.
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if len(self._ready) == 1 and self._lives:
            self._world.after(0, self._turn)
        return handle

    def call_later(  # type: ignore[override]  # as above.
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)
        self._world.after(max(1, round(delay * 1000)), self._due, handle)
        return handle

    def call_at(  # type: ignore[override]  # as above.
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Its event finds that it was cancelled."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]  # the base has keywords of later Pythons.
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._coroutines.append(coro)
        return task

    def run_in_executor(  # type: ignore[override]  # the base is generic in the arguments.
        self, executor: Any, function: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 - it is the future's to tell.
            future.set_exception(error)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback raised: the seed has failed. Tasks that a dead process left are no error."""
        error = context.get("exception")
        if error is not None and self._lives:
            raise error

    # ---- events ----

    @property
    def _lives(self) -> bool:
        return self._world.processes.get(self._process.node) is self._process

    def _turn(self) -> None:
        if not self._lives:
            return
        if self._process.paused:
            self._world.after(PAUSED_MS, self._turn)
            return
        self.run(self._run_ready)

    def _run_ready(self) -> None:
        """Also what is added meanwhile; a callback that adds itself for ever is found by the test's
        time limit."""
        while self._ready:
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _due(self, handle: asyncio.TimerHandle) -> None:
        if not self._lives or handle.cancelled():
            return
        if self._process.paused:
            self._world.after(PAUSED_MS, self._due, handle)
            return
        self.run(handle._run)
