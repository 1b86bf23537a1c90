"""Flow control windows of both directions (RFC 9113, sections 5.2 and 6.9).

Hot path: other files of this package read and lower `left` themselves.
"""

from typing import Final

WINDOW_INITIAL: Final = 65_535
"""Of the connection and of every stream, before SETTINGS and WINDOW_UPDATE."""
WINDOW_MAX: Final = (1 << 31) - 1


class SendWindow:
    """What this end may still send, on one stream or on the connection.

    Negative after the peer has lowered SETTINGS_INITIAL_WINDOW_SIZE (section 6.9.2).
    """

    __slots__ = ("left",)

    def __init__(self, left: int = WINDOW_INITIAL) -> None:
        self.left = left

    def grow(self, increment: int) -> bool:
        """Adds an increment, or a change of the initial size; False if the window overflows."""
        self.left += increment
        return self.left <= WINDOW_MAX


class ReceiveWindow:
    """What the peer may still send, and what of it is given back.

    Bytes are given back when they are consumed, not when they arrive: those that wait for a paused
    reader are `held`, so that left + held + due == size. The memory of what waits on a connection
    is thereby bounded by the size of the connection's window.
    """

    __slots__ = ("held", "left", "low", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = size
        self.low = size // 2
        """While nothing is held and more than this is left, nothing is due to be given back."""
        self.held = 0

    def give_back(self) -> int:
        """The increment of a WINDOW_UPDATE that is due now, which counts as sent; 0 if none is.

        Gathers until as much is due as is left: few frames, and a peer never waits for more than
        half of what is not held.
        """
        due = self.size - self.left - self.held
        if due <= 0 or due < self.left:
            return 0
        self.left += due
        return due
