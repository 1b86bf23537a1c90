"""Keeps background tasks, names them and reports their errors: the only place with bare tasks.

The loop holds tasks weakly, so a task without another reference may be garbage collected while it
works, and its exception may never be reported. Use an `asyncio.TaskGroup` for tasks that end with a
block of code, and `TaskOwner` for tasks that live as long as an object.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

TASKS_MAX_DEFAULT: Final = 10_000
"""Far above what one owner needs; reaching it means that tasks are leaking."""


class TaskOwner:
    """Keeps the background tasks of one object, from its start to its stop.

    `on_failure(name, error)` is called on the loop, once for every task that ends with an
    exception other than cancellation. Not thread-safe: used on one loop.
    """

    def __init__(
        self,
        on_failure: Callable[[str, BaseException], None],
        *,
        tasks_max: int = TASKS_MAX_DEFAULT,
    ) -> None:
        self._on_failure = on_failure
        self._tasks_max = tasks_max
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __len__(self) -> int:
        """The number of tasks that have not ended."""
        return len(self._tasks)

    def start(self, coroutine: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
        """Starts a task. Raises RuntimeError after `close` and above the limit (our bugs)."""
        if self._closed or (len(self._tasks) >= self._tasks_max and self._is_full()):
            coroutine.close()
            why = "its owner is closed" if self._closed else f"{self._tasks_max} tasks are running"
            raise RuntimeError(f"cannot start task {name}: {why}")
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self, *, timeout_s: float) -> bool:
        """Cancels running tasks and waits for them; False if one ignored its cancellation."""
        self._closed = True
        # A task may close its own owner; waiting for itself would never end.
        pending = {task for task in self._tasks if task is not asyncio.current_task()}
        for task in pending:
            task.cancel()
        if not pending:
            return True
        _, pending = await asyncio.wait(pending, timeout=timeout_s)
        return not pending

    def _is_full(self) -> bool:
        """Without the tasks that have ended and whose callbacks are still due on the loop."""
        return sum(not task.done() for task in self._tasks) >= self._tasks_max

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._on_failure(task.get_name(), error)
