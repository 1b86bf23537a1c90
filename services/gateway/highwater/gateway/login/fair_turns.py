"""The work of logins that takes some ms of a processor, by turns of instances, on few threads.

A password or a signature that is checked costs the gateway some ms, whoever sends it. In one queue a flood of
one tenant's logins would have those of all others wait, for longer than a login may take. Here each
instance has a queue of its own, with a bound, and the queues take turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from highwater.gateway.login.scram_server import LoginRefused
from highwater.model.ids import InstanceId

WAITING_MAX: Final = 256
"""Of one instance: a second or two of the thread, much less than a login may take."""

_T = TypeVar("_T")


class LoginsBusy(LoginRefused):
    """As many logins of the instance wait already as may; the client may come again."""

    reason = "LOGINS_BUSY"


class _Waiting(NamedTuple):
    work: Callable[[], Any]
    done: "asyncio.Future[Any]"


class FairTurns:
    """See the module. Lives as long as the gateway, on its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: Executor) -> None:
        """`threads` gets one piece of work at a time."""
        self._loop = loop
        self._threads = threads
        self._queues: dict[InstanceId, deque[_Waiting]] = {}
        """None is empty; whose turn is next comes first."""
        self._busy = False

    async def run(self, instance: InstanceId, work: Callable[[], _T]) -> _T:
        """What `work` returns, or raises, on a thread. Raises LoginsBusy."""
        queue = self._queues.setdefault(instance, deque())
        if len(queue) >= WAITING_MAX:
            raise LoginsBusy("as many logins of the instance wait as may")
        done: asyncio.Future[_T] = self._loop.create_future()
        queue.append(_Waiting(work, done))
        self._begin_next()
        return await done

    def _begin_next(self) -> None:
        while self._queues and not self._busy:
            instance, queue = next(iter(self._queues.items()))
            waiting = queue.popleft()
            del self._queues[instance]
            if queue:
                self._queues[instance] = queue  # Behind all others.
            if waiting.done.cancelled():
                continue
            self._busy = True
            running = self._loop.run_in_executor(self._threads, waiting.work)
            running.add_done_callback(partial(self._ended, waiting.done))

    def _ended(self, done: "asyncio.Future[Any]", running: "asyncio.Future[Any]") -> None:
        self._busy = False
        if running.cancelled():  # The gateway stops.
            done.cancel()
            return
        error = running.exception()
        if not done.cancelled():
            if error is None:
                done.set_result(running.result())
            else:
                done.set_exception(error)
        self._begin_next()
