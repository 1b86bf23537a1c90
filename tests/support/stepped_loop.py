"""An event loop that a test steps by hand, without real time, threads or waits.

Timers run when the test has moved `now` past them; work for threads runs at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class SteppedLoop(asyncio.SelectorEventLoop):
    """Only ever run by `turn` and `call`."""

    def __init__(self) -> None:
        self.now = 1_000.0
        super().__init__()

    def time(self) -> float:
        return self.now

    def run_in_executor(  # type: ignore[override]  # the base is generic in the arguments.
        self, executor: Any, function: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 - it is the future's to tell.
            future.set_exception(error)
        return future

    def turn(self, times: int = 1) -> None:
        """Runs all ready callbacks, so many times."""

        async def turns() -> None:
            for _ in range(times):
                await asyncio.sleep(0)

        self.run_until_complete(turns())

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function that has to run on the loop."""

        async def call() -> T:
            return function(*args)

        return self.run_until_complete(call())
