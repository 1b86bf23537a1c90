"""How long the controller certainly counts this node as alive: for `acks_1_needs_session`.

If this node falls silent, its successor is elected when its session has run out, counted from
when the controller got its last heartbeat. This node counts from when it sent that heartbeat, so
here the session ends earlier. If the controller sees the watch break, it elects sooner, as Kafka's
does.
"""

from collections.abc import Callable


class ControllerSession:
    """One node's session, by its own monotonic clock; on its loop."""

    __slots__ = ("_lasts_until_ms", "_monotonic_ms", "timeout_ms")

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        """Begins without a session: the first heartbeat comes before any leadership."""
        self._monotonic_ms = monotonic_ms
        self._lasts_until_ms = monotonic_ms()
        self.timeout_ms = 0
        """The session timeout from the registration."""

    def vouched_for(self, sent_ms: int) -> None:
        """The controller has answered a heartbeat sent then, and lets the node lead."""
        self._lasts_until_ms = max(self._lasts_until_ms, sent_ms + self.timeout_ms)

    def lasts(self) -> bool:
        """False if others may have been elected without this node's knowledge."""
        return self._monotonic_ms() < self._lasts_until_ms
