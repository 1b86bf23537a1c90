"""The orderly end of a node's streams: what was taken is answered, and no more is taken.

An Append stream tells its peer first (`AppendResponse.ending`), and ends when the peer has closed
its side: a message that the peer writes into a stream that is over would cost it the answers that
it has not read yet.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import grpc

REFUSED: Final = (grpc.StatusCode.UNAVAILABLE, "the node stops")
"""What a stream is told that comes too late."""


class StreamDrain:
    """All streams of one server. Used on its loop; `run` is the end, and cannot be undone."""

    def __init__(self) -> None:
        self._first: dict[object, Callable[[], None]] = {}
        self._last: dict[object, Callable[[], None]] = {}
        self._ended = False
        self._left = asyncio.Event()
        self.deadline_s = 0.0
        """On the loop's clock: answers that are not ready by then are not waited for."""

    @property
    def ended(self) -> bool:
        """True once no stream may begin any more."""
        return self._ended

    @contextmanager
    def stream(self, stop: Callable[[], None], *, last: bool = False) -> Iterator[None]:
        """A stream's life. `stop` is called at most once, when it has to end.

        `last`: others may wait for it, as appends do for followers; it ends after all of those.
        """
        streams = self._last if last else self._first
        key = object()
        streams[key] = stop
        try:
            yield
        finally:
            del streams[key]
            self._left.set()

    async def run(self, timeout_s: float) -> bool:
        """Lets every stream answer and end; False if some have not within the time."""
        loop = asyncio.get_running_loop()
        self._ended = True
        self.deadline_s = loop.time() + timeout_s
        for streams in (self._first, self._last):
            for stop in list(streams.values()):
                stop()
            with contextlib.suppress(TimeoutError):
                # A stream ends at the deadline by itself; some time is for that.
                async with asyncio.timeout_at(self.deadline_s + timeout_s / 4):
                    while streams:
                        self._left.clear()
                        await self._left.wait()
        return not self._first and not self._last
