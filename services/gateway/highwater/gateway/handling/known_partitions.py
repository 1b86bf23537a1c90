"""Requests about a group's offsets: the coordinator gets only partitions that exist.

The gateway answers for the others itself (Kafka: `KafkaApis.handleOffsetCommitRequest`).
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import GroupCodec, forward


class GroupRequest(Protocol):
    """The fields of such a request that are needed here."""

    group_id: str

    @property
    def topics(self) -> Sequence[object]:
        """The topics, without those that have been taken out."""


class RequestPartition(Protocol):
    """A partition in such a request."""

    partition_index: int


Request = TypeVar("Request", bound=GroupRequest)
Response = TypeVar("Response")
Topic = TypeVar("Topic")
Partition = TypeVar("Partition", bound=RequestPartition)


def split_partitions(
    context: RequestContext, topic: str, partitions: Sequence[Partition]
) -> tuple[list[Partition], list[Partition]]:
    """Returns the partitions that exist, and those that do not."""
    state = context.backend.image.topic(topic, context.peer.instance)
    count = 0 if state is None else len(state.partitions)
    known: list[Partition] = []
    unknown: list[Partition] = []
    for one in partitions:
        (known if 0 <= one.partition_index < count else unknown).append(one)
    return known, unknown


async def forward_known(
    context: RequestContext,
    body: memoryview,
    *,
    codec: GroupCodec[Request, Response],
    take_unknown: Callable[[RequestContext, Request], list[Topic]],
    add_unknown: Callable[[Response, list[Topic]], None],
    failure: Callable[[Request, int, int], Response],
    response_type: type[Response],
) -> bytes:
    """Sends the request on; returns the response with the answers for unknown partitions.

    `take_unknown` takes unknown partitions out of the request and returns their answers, which
    `add_unknown` adds to the coordinator's response.
    """
    version = context.api_version
    request = codec.decode_request(body, 0, version)
    unknown = take_unknown(context, request)
    if unknown and not request.topics:
        response = response_type()
    else:
        answered = await forward(
            context,
            memoryview(codec.encode_request(request, version)) if unknown else body,
            request.group_id,
            codec=codec,
            failure=failure,
            deadline_ms=context.backend.settings.request_timeout_ms,
        )
        if not unknown:
            return answered
        response = codec.decode_response(memoryview(answered), 0, version)
    add_unknown(response, unknown)
    return codec.encode_response(response, version)
