"""The handler of requests of connections that have client quotas; all others' have no part in it.

As with logins, such a session has this object for its handler, so that a connection without quotas pays
nothing for them when a request begins. When Produce or Fetch are answered, they look at `Session.quota`.
"""

from collections.abc import Callable
from typing import Protocol

from highwater.gateway.core.quota_port import QuotaPort
from highwater.gateway.core.session_ports import RequestHandler
from highwater.gateway.routing.client import ClientSession


class HeldFetches(Protocol):
    """Answers Fetch requests without records."""

    def hold(self, session: ClientSession, frame: bytearray, throttle_ms: int) -> None:
        """Answers a request at once, with nothing but this time, and mutes its connection."""
        ...


class LimitedRequests:
    """A `RequestHandler`. One for each gateway."""

    def __init__(
        self,
        requests: RequestHandler[ClientSession],
        fetches: HeldFetches,
        clock_ns: Callable[[], int],
    ) -> None:
        """`requests` handles those of all others."""
        self._requests = requests
        self._fetches = fetches
        self._clock_ns = clock_ns

    def produce(self, session: ClientSession, frame: bytearray) -> None:
        """Handles it as any other; the time until its batches are on their way counts."""
        self._timed(session.quota, self._requests.produce, session, frame)

    def fetch(self, session: ClientSession, frame: bytearray) -> None:
        """As long as the client is over its quota, it gets no records (KIP-219)."""
        quota = session.quota
        hold_ms = 0 if quota is None else quota.fetch_hold_ms()
        if hold_ms:
            self._fetches.hold(session, frame, hold_ms)
        else:
            self._timed(quota, self._requests.fetch, session, frame)

    def other(self, session: ClientSession, frame: bytearray) -> None:
        """`Requests` looks after the quotas of these itself, as their answers carry the time."""
        self._requests.other(session, frame)

    def reply_failed(self, session: ClientSession, error: Exception) -> None:
        """As for any request."""
        self._requests.reply_failed(session, error)

    def _timed(
        self,
        quota: QuotaPort | None,
        start: Callable[[ClientSession, bytearray], None],
        session: ClientSession,
        frame: bytearray,
    ) -> None:
        if quota is None or not quota.times:
            start(session, frame)
            return
        begun_ns = self._clock_ns()
        start(session, frame)
        quota.worked(self._clock_ns() - begun_ns)
