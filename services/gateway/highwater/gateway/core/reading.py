"""Why a session does not read from its client: a set of reasons, as bits of one number.

Events set and clear the first ones. The limits are checked again when a request or reply ends.
"""

from typing import Final

CLOSED: Final = 1 << 0
"""The connection has ended; this reason is never cleared."""
MUTED: Final = 1 << 1
"""The client is over its quota (KIP-219)."""
SOCKET_FULL: Final = 1 << 2
"""The client's socket is full, and replies wait for it."""
MEMORY_AWAITED: Final = 1 << 3
"""A large frame has begun, and the budget has no room for it yet."""
TURN_OVER: Final = 1 << 4
"""More frames have arrived than one turn may start; later turns start the rest."""

MANY_FRAMES: Final = 1 << 5
"""Too many frames wait to be started."""
MANY_REQUESTS: Final = 1 << 6
"""Too many requests are in flight."""
MANY_BYTES: Final = 1 << 7
"""Requests that are in flight or wait hold too many bytes."""
MANY_REPLIES: Final = 1 << 8
"""Too many replies are not ready, or wait behind one that is not."""
MEMORY_SCARCE: Final = 1 << 9
"""The gateway is short of memory, and this connection has Produce or Fetch in flight.

The end of one of those clears it, so the connection never waits for ever. Other requests may wait
for long (JoinGroup), and a disconnect of their client must be noticed.
"""

LIMITS: Final = MANY_FRAMES | MANY_REQUESTS | MANY_BYTES | MANY_REPLIES | MEMORY_SCARCE
"""Reasons that are computed from numbers, not set by an event."""
