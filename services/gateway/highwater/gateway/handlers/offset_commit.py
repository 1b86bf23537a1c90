"""OffsetCommit v2-8: a group's positions are written down.

Behaviour
- Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION here, and the coordinator does
  not hear of them (Kafka's `KafkaApis.handleOffsetCommitRequest`).
- The group's coordinator decides about the others. If all partitions exist, the body passes through
  as it is. An error of the whole call is told for every partition, since the response has no other
  place for it.

Version notes
- v2-4: retention time. v3: throttle time. v6: leader epoch. v7: static members. v8: flexible.
- v9 is the same with the next generation of groups (KIP-848), v10 names topics by id.
"""

from collections.abc import Sequence

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import forward
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import offset_commit as codec


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call, or what is left of it, to the group's coordinator."""
    version = context.api_version
    request = codec.decode_request(body, 0, version)
    unknown = _take_unknown(context, request)
    if unknown and not request.topics:
        return codec.encode_response(codec.OffsetCommitResponse(topics=unknown), version)
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
    response.topics = [*response.topics, *unknown]
    return codec.encode_response(response, version)


def _take_unknown(
    context: RequestContext, request: codec.OffsetCommitRequest
) -> list[codec.OffsetCommitResponseOffsetCommitResponseTopic]:
    """Takes the partitions that do not exist out of the request; their answers."""
    image, instance = context.backend.image, context.peer.instance
    unknown, known = [], []
    for topic in request.topics:
        state = image.topic(topic.name, instance)
        count = 0 if state is None else len(state.partitions)
        there: list[codec.OffsetCommitRequestOffsetCommitRequestPartition] = []
        gone: list[codec.OffsetCommitRequestOffsetCommitRequestPartition] = []
        for one in topic.partitions:
            (there if 0 <= one.partition_index < count else gone).append(one)
        if gone:
            unknown.append(_answer(topic.name, gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = there
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return unknown


def _answer(
    name: str,
    partitions: Sequence[codec.OffsetCommitRequestOffsetCommitRequestPartition],
    code: int,
) -> codec.OffsetCommitResponseOffsetCommitResponseTopic:
    return codec.OffsetCommitResponseOffsetCommitResponseTopic(
        name=name,
        partitions=[
            codec.OffsetCommitResponseOffsetCommitResponsePartition(one.partition_index, code)
            for one in partitions
        ],
    )


def failure(
    request: codec.OffsetCommitRequest, _version: int, code: int
) -> codec.OffsetCommitResponse:
    """The code for every partition."""
    return codec.OffsetCommitResponse(
        topics=[_answer(topic.name, topic.partitions, code) for topic in request.topics]
    )
