"""Calls to coordinators: finds a group's or a transaction's node, sends the call and waits.

A call that the node refuses with NOT_COORDINATOR has done nothing. It is routed again when a newer
image comes: the client could only ask FindCoordinator, which reads the same image. Not so a call that
must not come late (`never_late`): it goes only to the node whose port the client has chosen, and only once.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeVar

from highwater.gateway.handling.authorization import allowed_on_group
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.errors import group_code
from highwater.gateway.handling.never_late import NEVER_LATE
from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acl_operations import AclOperation
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import GROUP_METADATA_TOPIC, NO_NODE, NodeId

ATTEMPTS_MAX: Final = 3
MOVE_WAIT_MS: Final = 1_000
"""How long a refused call waits for metadata that names another coordinator."""
REPLY_GRACE_MS: Final = 1_000
"""The node answers by the deadline; so long after it the gateway gives up."""

ALL_LED: Final = -1
"""In place of a partition: all partitions that the node leads."""

_NEEDS_VIEW: Final = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
"""The only call whose coordinator looks for topics: those that a regular expression matches."""

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class GroupCodec(Protocol[_Request, _Response]):
    """A generated message module."""

    def decode_request(self, buf: memoryview, pos: int, version: int, /) -> _Request:
        """Decodes a request."""
        ...

    def encode_request(self, message: _Request, version: int, /) -> bytes:
        """Encodes a request."""
        ...

    def decode_response(self, buf: memoryview, pos: int, version: int, /) -> _Response:
        """Decodes a response."""
        ...

    def encode_response(self, message: _Response, version: int, /) -> bytes:
        """Encodes a response."""
        ...


class CoordinatorPlace(NamedTuple):
    """A coordinator: the partition of its topic, and the leader of that."""

    node: NodeId
    """-1 while the partition has no leader."""
    partition: int


class CoordinatorReply(NamedTuple):
    """Either code 0 and an encoded response body, or an error code for a coordinator's clients."""

    error_code: int
    body: bytes = b""


NOT_AVAILABLE: Final = CoordinatorReply(int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
NOT_COORDINATOR: Final = CoordinatorReply(int(ErrorCode.NOT_COORDINATOR))


def place_of(
    context: RequestContext, key: str, topic: str = GROUP_METADATA_TOPIC
) -> CoordinatorPlace | None:
    """The coordinator of a group, or of what else the internal topic is about, by the newest image.

    None until the instance has used one, or one of those that it shares the topic with.
    """
    instance = context.peer.instance
    state = context.backend.image.coordinator_topic(topic, instance)
    if state is None:
        return None
    partition = coordinator_place(instance, key, len(state.partitions))
    return CoordinatorPlace(state.partitions[partition].leader, partition)


def leading_nodes(context: RequestContext, topic: str = GROUP_METADATA_TOPIC) -> list[NodeId]:
    """The nodes that may coordinate groups of the instance, or what else the topic is about; ascending."""
    state = context.backend.image.coordinator_topic(topic, context.peer.instance)
    partitions = () if state is None else state.partitions
    return sorted({one.leader for one in partitions} - {NO_NODE})


async def ask_coordinator(
    context: RequestContext,
    key: str,
    body: bytes | memoryview,
    deadline_ms: int,
    topic: str = GROUP_METADATA_TOPIC,
) -> CoordinatorReply:
    """Sends one request to the coordinator of a group, or of what else the topic is about.

    NOT_COORDINATOR if it must not come late, and that is not the node whose port the client came by.
    """
    backend = context.backend
    never_late = context.api_key in NEVER_LATE
    end_ms = backend.clock.monotonic_ms() + deadline_ms
    reply = NOT_AVAILABLE
    for _ in range(ATTEMPTS_MAX):
        revision = backend.image.revision
        place = place_of(context, key, topic)
        if place is None:
            return NOT_AVAILABLE
        left_ms = end_ms - backend.clock.monotonic_ms()
        if left_ms <= 0:
            return reply
        if never_late and context.peer.node not in (None, place.node):
            return NOT_COORDINATOR
        reply = await ask_node(context, place, body, left_ms)
        if never_late or reply.error_code != ErrorCode.NOT_COORDINATOR:
            return reply
        wait_ms = min(MOVE_WAIT_MS, end_ms - backend.clock.monotonic_ms())
        if wait_ms <= 0 or not await backend.wait_for_revision(revision + 1, wait_ms / 1000):
            return reply
    return reply


async def ask_node(
    context: RequestContext, place: CoordinatorPlace, body: bytes | memoryview, deadline_ms: int
) -> CoordinatorReply:
    """Sends one request to one node; ends early if the client disconnects. Failures are codes."""
    link = context.backend.link_to(place.node)
    if link is None:
        return NOT_AVAILABLE
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[CoordinatorReply] = loop.create_future()

    def reply(error_code: int, response: bytes) -> None:
        if not answer.done():
            answer.set_result(CoordinatorReply(group_code(error_code), response))

    call = CoordinatorCall(
        api_key=context.api_key,
        api_version=context.api_version,
        instance=context.peer.instance,
        client_id=context.client_id,
        client_host=f"/{context.peer.host}",
        body=body,
        partition=place.partition,
        deadline_ms=deadline_ms,
        reply=reply,
    )
    if context.api_key == _NEEDS_VIEW:
        call.view = context.backend.authorizer.topic_view(context.client.requester)

    def leave() -> None:
        if not answer.done():
            link.cancel(call)
            answer.set_result(NOT_AVAILABLE)

    context.on_disconnect(leave)
    if answer.done():  # The client has disconnected already.
        return NOT_AVAILABLE
    late = loop.call_later(
        (deadline_ms + REPLY_GRACE_MS) / 1000, reply, int(ErrorCode.REQUEST_TIMED_OUT), b""
    )
    link.submit(call)
    try:
        return await answer
    except asyncio.CancelledError:
        link.cancel(call)
        raise
    finally:
        late.cancel()


async def forward(
    context: RequestContext,
    body: memoryview,
    group_id: str,
    *,
    operation: AclOperation | None = AclOperation.READ,
    codec: GroupCodec[_Request, _Response],
    failure: Callable[[_Request, int, int], _Response],
    deadline_ms: int,
) -> bytes:
    """Passes a request through undecoded; an error code is put into the API's response.

    That needs the decoded request, so it raises DecodeError if the request is malformed.

    The client must be allowed to do `operation` to the group; None if the caller has asked.
    """
    if operation is None or allowed_on_group(context, operation, group_id):
        code, response = await ask_coordinator(context, group_id, body, deadline_ms)
        if code == ErrorCode.NONE:
            return response
    else:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    version = context.api_version
    request = codec.decode_request(body, 0, version)
    return codec.encode_response(failure(request, version, code), version)
