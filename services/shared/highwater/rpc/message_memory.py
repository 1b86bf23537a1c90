"""A bound for the memory of messages that are being received, wait for a paused reader, or are kept."""

from typing import Final

INBOX_MESSAGE_BYTES: Final = 96
"""Of a message that waits, beside its bytes: its object, its place in the queue, and what the allocator
rounds up (`sys.getsizeof` of an empty one is 57). Of empty messages that is all there is, and they take
five bytes of the peer's window."""


class AssemblyBudget:
    """Memory of the messages that one connection's streams are receiving at a time, in bytes.

    A message counts with all of its length from its prefix on. Flow control cannot bound this: a
    message may be longer than a window, so its bytes are given back as they arrive. Nor can it bound
    the messages that wait for a paused reader, which may be many more than their bytes. The messages
    that a server's calls keep (`rpc.ports.ServerCallbacks`) count until their call ends.
    """

    __slots__ = ("_left", "_nbytes")

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._left = nbytes

    @property
    def taken(self) -> int:
        """What is taken now."""
        return self._nbytes - self._left

    def take(self, nbytes: int) -> bool:
        """Takes memory for a message; False if too much is taken."""
        if nbytes > self._left:
            return False
        self._left -= nbytes
        return True

    def give(self, nbytes: int) -> None:
        """Gives it back: the message is handed on, or dropped."""
        self._left += nbytes
