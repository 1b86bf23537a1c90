"""OffsetDelete v0: an administrator removes a group's offsets of some partitions (KIP-496).

Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION here, and the coordinator does
not hear of them (Kafka's `KafkaApis.handleOffsetDeleteRequest`). Of the others the group's
coordinator decides; its error of the call as a whole is all that the response has then.
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import forward
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import offset_delete as codec


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call, or what is left of it, to the group's coordinator."""
    version = context.api_version
    request = codec.decode_request(body, 0, version)
    unknown = _take_unknown(context, request)
    if unknown and not request.topics:
        return codec.encode_response(codec.OffsetDeleteResponse(topics=unknown), version)
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
    if response.error_code:
        return answered
    answers = {topic.name: topic for topic in response.topics}
    for topic in unknown:
        if topic.name in answers:
            known = answers[topic.name]
            known.partitions = [*known.partitions, *topic.partitions]
        else:
            answers[topic.name] = topic
    response.topics = list(answers.values())
    return codec.encode_response(response, version)


def _take_unknown(
    context: RequestContext, request: codec.OffsetDeleteRequest
) -> list[codec.OffsetDeleteResponseOffsetDeleteResponseTopic]:
    """Takes the partitions that do not exist out of the request; their answers."""
    image, instance = context.backend.image, context.peer.instance
    unknown: list[codec.OffsetDeleteResponseOffsetDeleteResponseTopic] = []
    known: list[codec.OffsetDeleteRequestOffsetDeleteRequestTopic] = []
    for topic in request.topics:
        state = image.topic(topic.name, instance)
        count = 0 if state is None else len(state.partitions)
        there = [one for one in topic.partitions if 0 <= one.partition_index < count]
        gone = [one for one in topic.partitions if not 0 <= one.partition_index < count]
        if gone:
            unknown.append(
                codec.OffsetDeleteResponseOffsetDeleteResponseTopic(
                    topic.name,
                    [
                        codec.OffsetDeleteResponseOffsetDeleteResponsePartition(
                            one.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        )
                        for one in gone
                    ],
                )
            )
        if there or not gone:
            topic.partitions = there
            known.append(topic)
    request.topics = known
    return unknown


def failure(
    _request: codec.OffsetDeleteRequest, _version: int, code: int
) -> codec.OffsetDeleteResponse:
    """The code for the whole."""
    return codec.OffsetDeleteResponse(error_code=code)
