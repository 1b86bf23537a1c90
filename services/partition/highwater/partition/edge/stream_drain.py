"""Ends a node's streams in order: it answers what it has read, and reads nothing more.

An Append stream first tells its peer (`AppendResponse.ending`) and ends when the peer has closed
its side. If it ended at once, a peer that still writes would lose the answers that it has not read.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from highwater.rpc.status import StatusCode

REFUSED: Final = (StatusCode.UNAVAILABLE, "the node stops")
"""The error of a stream that begins too late."""


class StreamDrain:
    """All streams of one server. Used on its loop; `run` is the end, and cannot be undone."""

    def __init__(self) -> None:
        self._first: dict[object, Callable[[], None]] = {}
        self._last: dict[object, Callable[[], None]] = {}
        self._ended = False
        self._left = asyncio.Event()
        self.deadline_s = 0.0
        """On the loop's clock: streams do not wait for later answers."""

    @property
    def ended(self) -> bool:
        """Whether new streams are refused."""
        return self._ended

    def register(self, stop: Callable[[], None], *, last: bool = False) -> Callable[[], None]:
        """Registers a stream; call what it returns when the stream has ended.

        `stop` is called at most once, to end it. `last`: end this stream after all others, which
        may wait for it as appends do for followers.
        """
        streams = self._last if last else self._first
        key = object()
        streams[key] = stop

        def leave() -> None:
            del streams[key]
            self._left.set()

        return leave

    async def run(self, timeout_s: float) -> bool:
        """Lets every stream answer and end; False if some have not ended in time."""
        loop = asyncio.get_running_loop()
        self._ended = True
        self.deadline_s = loop.time() + timeout_s
        for streams in (self._first, self._last):
            for stop in list(streams.values()):
                stop()
            with contextlib.suppress(TimeoutError):
                # Streams end by themselves at the deadline; this allows them some more time.
                async with asyncio.timeout_at(self.deadline_s + timeout_s / 4):
                    while streams:
                        self._left.clear()
                        await self._left.wait()
        return not self._first and not self._last
