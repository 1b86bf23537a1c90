"""Why a session reads nothing from its client: a set of reasons, as bits of one number.

Events add and take away the first ones. The limits are looked at again when something has ended.
"""

from typing import Final

CLOSED: Final = 1 << 0
"""The connection has ended; this one never goes away."""
MUTED: Final = 1 << 1
"""The client is over its quota (KIP-219)."""
SOCKET_FULL: Final = 1 << 2
"""The client's socket takes no more, and replies wait for it."""
MEMORY_AWAITED: Final = 1 << 3
"""A large frame has begun, and there is no room for it yet."""
TURN_OVER: Final = 1 << 4
"""More frames have come than one turn may start; the next turns go on with them."""

MANY_FRAMES: Final = 1 << 5
"""Too many frames wait to be started."""
MANY_REQUESTS: Final = 1 << 6
"""Too many requests are under way."""
MANY_BYTES: Final = 1 << 7
"""Requests that are under way, or wait, hold too many bytes."""
MANY_REPLIES: Final = 1 << 8
"""Too many replies are awaited, or wait behind one that is."""
MEMORY_SCARCE: Final = 1 << 9
"""The gateway's memory is short, and Produce or Fetch of this connection are under way.

Their end, and nobody else's, lets it read on; so it never waits for ever. Other requests wait long
by themselves (JoinGroup), and the end of their client must be noticed.
"""

LIMITS: Final = MANY_FRAMES | MANY_REQUESTS | MANY_BYTES | MANY_REPLIES | MEMORY_SCARCE
"""Those that follow from numbers, and are not set by an event."""
