"""Answers the requests that waited for a stream which has broken, a few in each turn of the loop.

Ten thousand answers in one turn would stop all clients of the gateway for half a second. Clients' replies
leave in the order of their requests whatever the order of these answers is: each connection's session sees
to that.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from highwater.hop.ports import ENDED_IN_STEP

T = TypeVar("T")


class LostWaits(Generic[T]):
    """Of one kind of stream to one node, and as long as that; on its loop."""

    def __init__(self, answer: Callable[[T], None], on_bug: Callable[[Exception], None]) -> None:
        """`answer` is called once for each, and skips those whose clients have gone meanwhile.

        `on_bug` gets what it raises; the others are answered all the same.
        """
        self._answer = answer
        self._on_bug = on_bug
        self._waits: deque[T] = deque()
        self._scheduled = False

    def add(self, waits: Iterable[T]) -> None:
        """Answers the first ones now, and the others in later turns, in order."""
        self._waits.extend(waits)
        if not self._scheduled:
            self._step()

    def end_all(self) -> None:
        """Answers all now: there are no later turns."""
        while self._waits:
            self._end_one()

    def _step(self) -> None:
        self._scheduled = False
        for _ in range(min(ENDED_IN_STEP, len(self._waits))):
            self._end_one()
        if self._waits:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._step)

    def _end_one(self) -> None:
        try:
            self._answer(self._waits.popleft())
        except Exception as error:  # noqa: BLE001 - one client's bug; others wait, too.
            self._on_bug(error)
