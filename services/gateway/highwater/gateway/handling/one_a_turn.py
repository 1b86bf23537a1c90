"""Long answers, one in each turn of the loop.

Metadata of 3 000 partitions takes 25 ms to make. A client that is refused asks for it again, and so
do all others at the same moment: without this, fifty of them would keep the loop from everything
else for more than a second, heartbeats included.
"""

import asyncio
from types import TracebackType


class OneATurn:
    """`async with` around what occupies the loop: the next one has to wait for the next turn.

    They enter in the order in which they came. How many may wait is bounded by the memory budget
    of requests that are not answered.
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
        # Not at once: whoever comes in this turn has to wait, too.
        asyncio.get_running_loop().call_soon(self._lock.release)
