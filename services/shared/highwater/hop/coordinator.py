"""The port for coordinator calls: one Kafka request for the coordinator of a group."""

from collections.abc import Callable
from typing import Final, Protocol

from highwater.model.authorization import TopicView
from highwater.model.ids import InstanceId

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Far above the largest honest SyncGroup; larger bodies are refused undecoded."""

REPLY_BYTES_MAX: Final = 100 << 20
"""Below gRPC's limit. A larger reply, such as huge subscriptions to a leader, is an error."""

MESSAGE_BYTES_MAX: Final = 1 << 20
"""Bytes of calls, or of replies, in one message; a larger one is sent alone. A message above gRPC's
limit would break the stream and fail all calls in it."""


class CoordinatorCall:
    """One request on its way to a coordinator, body and reply in Kafka's own encoding.

    `reply(error_code, body)` is called exactly once, on the event loop: either code 0 with the
    encoded response body (no header), or a Kafka error code with an empty body (15
    COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR, 14 COORDINATOR_LOAD_IN_PROGRESS, 7
    REQUEST_TIMED_OUT), which the gateway puts into the API's own response. After `cancelled` is
    set, replies are ignored.
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
        "request",
        "view",
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
        request: object | None = None,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.instance = instance
        self.client_id = client_id
        self.client_host = client_host
        self.body = body
        self.partition = partition
        """The partition of the group metadata topic that the group belongs to."""
        self.deadline_ms = deadline_ms
        """Milliseconds from now; later replies are ignored."""
        self.reply = reply
        self.request = request
        """The body decoded, if the caller has done that: for a coordinator in the same process."""
        self.view: TopicView | None = None
        """Which topics the client may DESCRIBE, in ConsumerGroupHeartbeat; None if every one."""
        self.cancelled = False


class CoordinatorPort(Protocol):
    """A node's coordinators, in process or behind the Coordinate stream."""

    def submit(self, call: CoordinatorCall) -> None:
        """Takes the call; never raises and never blocks."""
        ...

    def cancel(self, call: CoordinatorCall) -> None:
        """Forgets a waiting JoinGroup or SyncGroup whose client has disconnected."""
        ...
