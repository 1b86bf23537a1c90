"""How long the controller is known to count this node as alive: for `acks_1_needs_session`.

Whoever takes over from a node that falls silent is elected when its session has run out, counted from
when the controller heard it last; counted here from when that heartbeat was sent, it has run out
before. A node whose watch is seen to break is replaced sooner: it has that in common with Kafka's.
"""

from collections.abc import Callable


class ControllerSession:
    """One node's session, by its own monotonic clock; on its loop."""

    __slots__ = ("_lasts_until_ms", "_monotonic_ms", "timeout_ms")

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        """Begins without a session: the first heartbeat comes before any office."""
        self._monotonic_ms = monotonic_ms
        self._lasts_until_ms = monotonic_ms()
        self.timeout_ms = 0
        """What the controller said at the registration."""

    def vouched_for(self, sent_ms: int) -> None:
        """The controller has answered a heartbeat of that time, and lets the node lead."""
        self._lasts_until_ms = max(self._lasts_until_ms, sent_ms + self.timeout_ms)

    def lasts(self) -> bool:
        """False if others may have been elected without this node having heard of it."""
        return self._monotonic_ms() < self._lasts_until_ms
