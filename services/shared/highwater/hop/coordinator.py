"""The port for coordinator calls: one Kafka request for the owner of a group or transaction."""

from collections.abc import Callable
from typing import Final, Protocol

from highwater.model.ids import InstanceId

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Far above the largest honest SyncGroup; larger bodies are refused undecoded."""

REPLY_BYTES_MAX: Final = 100 << 20
"""Below what gRPC takes: what a leader is told of a group with gigantic subscriptions is an error."""

MESSAGE_BYTES_MAX: Final = 1 << 20
"""Bodies of calls, or of replies, that travel together; a larger one travels alone. A message above
gRPC's limit would end the stream, and with it everybody's calls."""


class CoordinatorCall:
    """One request on its way to a coordinator, body and reply in Kafka's own encoding.

    `reply(error_code, body)` is called exactly once, on the event loop: either code 0 with the
    encoded response body (no header), or a Kafka error code with an empty body (15
    COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR, 14 COORDINATOR_LOAD_IN_PROGRESS, 7
    REQUEST_TIMED_OUT), which the gateway puts into the API's own response. After `cancelled` is
    set nobody listens any more; a reply is then harmless.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "body",
        "cancelled",
        "client_host",
        "client_id",
        "deadline_ms",
        "instance",
        "partition",
        "reply",
    )

    def __init__(
        self,
        *,
        api_key: int,
        api_version: int,
        instance: InstanceId,
        client_id: str,
        client_host: str,
        body: bytes | memoryview,
        partition: int,
        deadline_ms: int,
        reply: Callable[[int, bytes], None],
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.instance = instance
        self.client_id = client_id
        self.client_host = client_host
        self.body = body
        self.partition = partition
        """The partition of the coordinator's topic that owns the group or transactional id."""
        self.deadline_ms = deadline_ms
        """Milliseconds from now until nobody waits for the reply."""
        self.reply = reply
        self.cancelled = False


class CoordinatorPort(Protocol):
    """A node's coordinators, in process or behind the Coordinate stream."""

    def submit(self, call: CoordinatorCall) -> None:
        """Takes the call; never raises and never blocks."""
        ...

    def cancel(self, call: CoordinatorCall) -> None:
        """Says that the client is gone; a parked JoinGroup or SyncGroup is then forgotten."""
        ...
