"""What the client quotas say of one request that is neither Produce nor Fetch."""

from collections.abc import Callable
from typing import Final, Protocol

from highwater.gateway.core.quota_port import QuotaPort


class RequestQuota(Protocol):
    """Asked by handlers and by what encodes their answers."""

    throttle_ms: int
    """For how many ms the client is throttled; known once the request has ended."""

    def may_change(self, partitions: int, *, strict: bool) -> bool:
        """True if the client may create or delete so many partitions (KIP-599).

        Not `strict` are versions that do not know THROTTLING_QUOTA_EXCEEDED: always True.
        """
        ...

    def ended(self) -> int:
        """The answer is known; returns `throttle_ms`. Again if the answer became another one."""
        ...


class _NoQuota:
    """Of a client without quotas."""

    __slots__ = ()
    throttle_ms: int = 0

    def may_change(self, partitions: int, *, strict: bool) -> bool:  # noqa: ARG002 - the port's.
        """Always True."""
        return True

    def ended(self) -> int:
        """Always 0."""
        return 0


NO_QUOTA: Final[RequestQuota] = _NoQuota()


class LimitedRequest:
    """Of a client with quotas. Lives as long as the request."""

    __slots__ = ("_changes", "_counted_ns", "_quota", "_spent_ns", "throttle_ms")

    def __init__(self, quota: QuotaPort, spent_ns: Callable[[], int]) -> None:
        """`spent_ns` tells the loop's time that the request has taken so far."""
        self._quota = quota
        self._spent_ns = spent_ns
        self._counted_ns = 0
        self._changes = False
        self.throttle_ms = 0

    def may_change(self, partitions: int, *, strict: bool) -> bool:
        """See `RequestQuota`."""
        self._changes = True
        return self._quota.may_change(partitions, strict=strict)

    def ended(self) -> int:
        """See `RequestQuota`."""
        spent_ns = self._spent_ns()
        ns, self._counted_ns = spent_ns - self._counted_ns, spent_ns
        self.throttle_ms = self._quota.request_ended(ns, changes=self._changes)
        return self.throttle_ms
