"""Makes long answers one at a time, each in its own turn of the loop.

Metadata of 3 000 partitions takes 25 ms to make. When a leader moves, all its clients ask at the
same moment: fifty answers in one turn would delay all else, heartbeats included, by over a second.
"""

import asyncio
from types import TracebackType


class OneATurn:
    """`async with` around long work: the next one enters in the next turn, first come first served.

    The memory budget of unanswered requests limits how many wait.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Not at once: callers that come later in this turn have to wait, too.
        asyncio.get_running_loop().call_soon(self._lock.release)
