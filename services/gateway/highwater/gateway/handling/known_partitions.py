"""Requests about a group's offsets: the coordinator gets only allowed partitions that exist.

The gateway answers for the others itself (Kafka: `KafkaApis.handleOffsetCommitRequest`). It decodes
these requests in any case, so that asking for their topics costs nothing more.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from highwater.gateway.handling.authorization import allowed_on_group, denied_topics
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import GroupCodec, forward
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acl_operations import AclOperation


class GroupRequest(Protocol):
    """The fields of such a request that are needed here."""

    group_id: str

    @property
    def topics(self) -> Sequence[object]:
        """The topics, without those that have been taken out."""


class RequestPartition(Protocol):
    """A partition in such a request."""

    partition_index: int


class RequestTopic(Protocol):
    """A topic in such a request."""

    name: str


Request = TypeVar("Request", bound=GroupRequest)
Response = TypeVar("Response")
Answer = TypeVar("Answer")
Partition = TypeVar("Partition", bound=RequestPartition)


def unreadable(context: RequestContext, topics: Iterable[RequestTopic]) -> frozenset[str]:
    """The names of topics that the client may not read, and so not move its offsets of."""
    return denied_topics(context, AclOperation.READ, (topic.name for topic in topics))


def split_partitions(
    context: RequestContext, topic: str, partitions: Sequence[Partition], denied: frozenset[str]
) -> tuple[list[Partition], list[Partition], ErrorCode]:
    """Returns the partitions that the coordinator gets, the others, and the code for these."""
    if topic in denied:
        return [], list(partitions), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    state = context.backend.image.topic(topic, context.peer.instance)
    count = 0 if state is None else len(state.partitions)
    known: list[Partition] = []
    unknown: list[Partition] = []
    for one in partitions:
        (known if 0 <= one.partition_index < count else unknown).append(one)
    return known, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def forward_known(
    context: RequestContext,
    body: memoryview,
    *,
    operation: AclOperation,
    codec: GroupCodec[Request, Response],
    take_refused: Callable[[RequestContext, Request], list[Answer]],
    add_refused: Callable[[Response, list[Answer]], None],
    failure: Callable[[Request, int, int], Response],
    response_type: type[Response],
    inside: int | None = None,
) -> bytes:
    """Sends the request on; returns the response with the answers for refused partitions.

    The client must be allowed to do `operation` to the group. `take_refused` takes partitions that
    are unknown or denied out of the request and returns their answers, which `add_refused` adds to
    the coordinator's response. The coordinator gets the request in the version `inside` if it does
    not know the client's.
    """
    version = context.api_version
    request = codec.decode_request(body, 0, version)
    if not allowed_on_group(context, operation, request.group_id):
        denial = failure(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return codec.encode_response(denial, version)
    refused = take_refused(context, request)
    if refused and not request.topics:
        response = response_type()
    else:
        changed = bool(refused) or inside is not None
        inner = version if inside is None else inside
        answered = await forward(
            context if inside is None else replace(context, api_version=inside),
            memoryview(codec.encode_request(request, inner)) if changed else body,
            request.group_id,
            operation=None,
            codec=codec,
            failure=failure,
            deadline_ms=context.backend.settings.request_timeout_ms,
        )
        if not changed:
            return answered
        response = codec.decode_response(memoryview(answered), 0, inner)
    add_refused(response, refused)
    return codec.encode_response(response, version)
