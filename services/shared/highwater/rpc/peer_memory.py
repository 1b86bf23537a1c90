"""A bound for the memory that all peers of a service together make it keep.

Each connection has limits of its own, and each may be reached by an honest peer: a message of 128 MiB
that is half here, a window full of messages for a paused reader, answers that are not read. So their sum
over thousands of connections is no bound. Nobody can be told to wait, either: what is kept is with us
already. Beyond the bound the connections that keep the most are closed, the worst first, until the rest
fits. An honest peer opens another one; a hostile one can have as much again, and is the worst again.

Nothing is counted on the way. While bytes come, somebody looks ten times a second at what there is, as
each part of a connection can tell it (`MemoryHolder.memory`). Between two looks no more can come than
this one loop reads in that time.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

MEMORY_BYTES_MAX: Final = 1 << 30
"""Four times what one connection may have under way in half messages, and far above what members of a
large cluster keep of one another; a gateway's own budget for its clients is a quarter of it."""
LOOK_S: Final = 0.1
"""From the first bytes after a look to the next one. An idle process does not look."""
LOOK_SHARE: Final = 20
"""A look that takes long, over many calls, is followed by so many times its duration without one."""
BUSY_SHARE: Final = 4
"""While this part of the bound is taken, looks go on even if nothing comes."""


class MemoryHolder(Protocol):
    """One connection. Compared by identity."""

    def memory(self) -> int:
        """About how many bytes it keeps for its peer."""
        ...

    def give_up(self, words: str) -> None:
        """Ends all calls and closes the socket; what it kept is free at once."""
        ...


def _nobody(_words: str) -> None:
    """Nobody wants to know."""


class PeerMemory:
    """Lives as long as its server, or as all channels of a process; on one loop."""

    __slots__ = ("_bytes_max", "_holders", "_pause_s", "_tell", "due")

    def __init__(
        self, bytes_max: int = MEMORY_BYTES_MAX, *, tell: Callable[[str], None] = _nobody
    ) -> None:
        """`tell` gets the reason for each connection that is closed, for a log."""
        self._bytes_max = bytes_max
        self._tell = tell
        self._holders: dict[MemoryHolder, None] = {}
        self._pause_s = LOOK_S
        self.due = False
        """Whether a look is due already. Read before each `look_soon`, to spare the call."""

    def join(self, holder: MemoryHolder) -> None:
        """Counts a connection from now on."""
        self._holders[holder] = None

    def leave(self, holder: MemoryHolder) -> None:
        """The connection is gone, whether it has joined or not."""
        self._holders.pop(holder, None)

    def look_soon(self) -> None:
        """Something has come, or has to wait, and nobody looks yet."""
        self.due = True
        asyncio.get_running_loop().call_later(self._pause_s, self._look)

    def _look(self) -> None:
        self.due = False
        clock = asyncio.get_running_loop().time
        began_s = clock()
        kept = self.look()
        self._pause_s = max(LOOK_S, LOOK_SHARE * (clock() - began_s))
        if kept > self._bytes_max // BUSY_SHARE and not self.due:
            self.look_soon()

    def look(self) -> int:
        """Closes the connections that keep the most while all keep too much; returns what is kept."""
        kept = [(holder.memory(), holder) for holder in self._holders]
        total = sum(nbytes for nbytes, _ in kept)
        if total > self._bytes_max:
            kept.sort(key=lambda one: one[0])
            while total > self._bytes_max:
                nbytes, worst = kept.pop()
                total -= nbytes
                self._give_up(worst, nbytes)
        return total

    def _give_up(self, holder: MemoryHolder, nbytes: int) -> None:
        self.leave(holder)
        words = f"all connections keep more than {self._bytes_max} bytes, and this one the most: {nbytes}"
        self._tell(words)
        holder.give_up(words)
