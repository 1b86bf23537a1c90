"""What sessions and the paths of requests ask of the client quotas of a connection that has some."""

from typing import Protocol


class QuotaPort(Protocol):
    """The quotas of a connection's client. A connection without quotas has None in its place.

    Every method that returns ms tells for how long the client is throttled.
    """

    @property
    def limits(self) -> object:
        """What it was made of."""
        ...

    @property
    def fetch_bytes_max(self) -> int:
        """The most that one Fetch may return."""
        ...

    @property
    def times(self) -> bool:
        """True if the time that requests take counts."""
        ...

    def produced(self, nbytes: int, throttle_ms: int) -> int:
        """Counts a Produce request that was answered. It is throttled for `throttle_ms` already, so
        the answer is not below that.
        """
        ...

    def fetch_hold_ms(self) -> int:
        """0 if a Fetch that comes now may go on; otherwise it gets no records."""
        ...

    def consumed(self, nbytes: int, throttle_ms: int) -> int:
        """Counts records that a Fetch returns; `throttle_ms` as in `produced`."""
        ...

    def worked(self, ns: int) -> None:
        """Counts time of the loop that a request took."""
        ...

    def may_change(self, partitions: int, *, strict: bool) -> bool:
        """Takes the tokens to create or delete so many partitions (KIP-599).

        False if it is `strict` and a debt is left; then it takes none.
        """
        ...

    def request_ended(self, ns: int, *, changes: bool) -> int:
        """Counts the time of a request that is neither Produce nor Fetch.

        With `changes` it was to create or delete partitions.
        """
        ...
