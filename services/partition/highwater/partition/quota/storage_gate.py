"""Whether a limited instance may still store something, as this node knows it.

The quota service adds up what all nodes store, and tells each how much is left (`take`), once a tick and
when an instance closes or opens. Between two such messages the node counts what it appends itself, and
closes by itself when nothing is left. So one busy node stops at the limit, and n busy nodes together
store at most (n - 1) times what was left at the last message, and no more than comes in a tick.

It opens only when the service says so: deletions count there. Without a service it stays as it is.
"""


class StorageGate:
    """Of one instance on this node. `closed` is read on the hot path of limited instances."""

    __slots__ = ("_left", "_limit", "_unreported", "closed")

    def __init__(self) -> None:
        self._limit: int | None = None
        self._left: int | None = None
        self._unreported = 0
        """Bytes appended since the last report: the service's figures are without them."""
        self.closed = False
        """Whether produce is to be refused."""

    def take(self, limit: int | None, left: int | None, *, exhausted: bool) -> None:
        """News of the service, in bytes of the whole instance; `left` None: the present one goes on."""
        if limit is None:
            self._limit = self._left = None
            self.closed = False
            return
        if left is not None:
            self._left = left - self._unreported
        elif self._left is not None and self._limit is not None:
            self._left += limit - self._limit
        self._limit = limit
        self.closed = exhausted or (self._left is not None and self._left <= 0)

    def reported(self) -> None:
        """A report is made now."""
        self._unreported = 0

    def charge(self, nbytes: int) -> None:
        """Counts bytes that are appended now."""
        self._unreported += nbytes
        if self._left is not None:
            self._left -= nbytes
            if self._left <= 0:
                self.closed = True

    def message(self, instance: str) -> str:
        """For clients that are refused."""
        limit = self._limit or 0
        used = limit - (self._left or 0)
        return (
            f"instance {instance} has reached its storage limit: it uses {used} of {limit} bytes "
            "(storage_bytes). Delete records or topics, shorten their retention, or raise the limit; "
            "consuming goes on"
        )
