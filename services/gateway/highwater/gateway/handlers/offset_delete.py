"""OffsetDelete v0: removes a group's offsets of some partitions (KIP-496).

The gateway answers UNKNOWN_TOPIC_OR_PARTITION for partitions that do not exist, and sends the
others to the coordinator (Kafka: `KafkaApis.handleOffsetDeleteRequest`). If the coordinator's
answer has a top-level error, no partitions are listed.
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.known_partitions import forward_known, split_partitions
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import offset_delete as codec

_Topic = codec.OffsetDeleteResponseOffsetDeleteResponseTopic


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the existing partitions to the group's coordinator."""
    return await forward_known(
        context,
        body,
        codec=codec,
        take_unknown=_take_unknown,
        add_unknown=_add_unknown,
        failure=failure,
        response_type=codec.OffsetDeleteResponse,
    )


def _take_unknown(context: RequestContext, request: codec.OffsetDeleteRequest) -> list[_Topic]:
    """Takes the partitions that do not exist out of the request; returns their answers."""
    unknown: list[_Topic] = []
    known: list[codec.OffsetDeleteRequestOffsetDeleteRequestTopic] = []
    for topic in request.topics:
        there, gone = split_partitions(context, topic.name, topic.partitions)
        if gone:
            unknown.append(
                _Topic(
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


def _add_unknown(response: codec.OffsetDeleteResponse, unknown: list[_Topic]) -> None:
    if response.error_code:
        return
    answers = {topic.name: topic for topic in response.topics}
    for topic in unknown:
        if topic.name in answers:
            known = answers[topic.name]
            known.partitions = [*known.partitions, *topic.partitions]
        else:
            answers[topic.name] = topic
    response.topics = list(answers.values())


def failure(
    _request: codec.OffsetDeleteRequest, _version: int, code: int
) -> codec.OffsetDeleteResponse:
    """The code at the top."""
    return codec.OffsetDeleteResponse(error_code=code)
