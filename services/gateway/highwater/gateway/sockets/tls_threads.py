"""Threads that encrypt, decrypt and shake hands, so that the loop does not.

OpenSSL and the kernel's reads and sends release Python's lock, so a thread's work runs beside the
loop. Only some tasks are out at a time; the others wait here, in order, and hold nothing but what they
are about to work on. So the results that the loop has not taken yet are few, however late it is.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

TASKS_PER_THREAD: Final = 2
"""One that a thread works on and one that is ready for it."""
STOP_S: Final = 3.0

Result = TypeVar("Result")
Task = tuple[Callable[[], Any], Callable[[Any], None]]
"""What a thread does, and what the loop does with the result."""


class TlsThreads:
    """The pool. Lives as long as the gateway's listeners; called on the loop only."""

    def __init__(
        self, threads: int, call_soon_threadsafe: Callable[..., object], *, name: str
    ) -> None:
        self._call_soon_threadsafe = call_soon_threadsafe
        self._queue: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._room = threads * TASKS_PER_THREAD
        self._waiting: deque[Task] = deque()
        self._names = [f"{name}-{i}" for i in range(threads)]
        self._threads: list[threading.Thread] = []

    def run(self, work: Callable[[], Result], done: Callable[[Result | Exception], None]) -> None:
        """Calls `work` on a thread, then `done` on the loop with its result, or what it has raised.

        A connection has one task at a time, so at most as many wait as there are connections.
        """
        if not self._threads:  # Most gateways need none.
            self._start()
        task = (work, done)
        if self._room:
            self._room -= 1
            self._queue.put(task)
        else:
            self._waiting.append(task)

    def stop(self) -> None:
        """Ends the threads after the tasks that are out; those that wait fail."""
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(OSError("the gateway stops"))
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(STOP_S)

    def _start(self) -> None:
        self._threads = [
            threading.Thread(target=self._run, name=name, daemon=True) for name in self._names
        ]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            work, done = task
            self._call_soon_threadsafe(self._finished, done, _outcome(work))

    def _finished(self, done: Callable[[Any], None], result: object) -> None:
        if self._waiting:
            self._queue.put(self._waiting.popleft())
        else:
            self._room += 1
        done(result)


def _outcome(work: Callable[[], Result]) -> Result | Exception:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - whoever has asked closes the connection by it.
        return error
