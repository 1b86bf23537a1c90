"""A bound for the memory of messages that are being received, or are kept for their call."""


class AssemblyBudget:
    """Memory of the messages that one connection's streams are receiving at a time, in bytes.

    A message counts with all of its length from its prefix on. Flow control cannot bound this: a
    message may be longer than a window, so its bytes are given back as they arrive. The messages
    that a server's calls keep (`rpc.ports.ServerCallbacks`) count until their call ends.
    """

    __slots__ = ("_left",)

    def __init__(self, nbytes: int) -> None:
        self._left = nbytes

    def take(self, nbytes: int) -> bool:
        """Takes memory for a message; False if too much is taken."""
        if nbytes > self._left:
            return False
        self._left -= nbytes
        return True

    def give(self, nbytes: int) -> None:
        """Gives it back: the message is complete, or dropped."""
        self._left += nbytes
