"""OffsetDelete v0: removes a group's offsets of some partitions (KIP-496).

The gateway answers UNKNOWN_TOPIC_OR_PARTITION for partitions that do not exist, and sends the
others to the coordinator (Kafka: `KafkaApis.handleOffsetDeleteRequest`). If the coordinator's
answer has a top-level error, no partitions are listed.

Without DELETE on the group the answer is GROUP_AUTHORIZATION_FAILED at the top, without READ on a
topic TOPIC_AUTHORIZATION_FAILED for its partitions.
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.known_partitions import forward_known, split_partitions, unreadable
from highwater.kafka.messages import offset_delete as codec
from highwater.model.acl_operations import AclOperation

_Topic = codec.OffsetDeleteResponseOffsetDeleteResponseTopic


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the existing partitions to the group's coordinator."""
    return await forward_known(
        context,
        body,
        operation=AclOperation.DELETE,
        codec=codec,
        take_refused=_take_refused,
        add_refused=_add_refused,
        failure=failure,
        response_type=codec.OffsetDeleteResponse,
    )


def _take_refused(context: RequestContext, request: codec.OffsetDeleteRequest) -> list[_Topic]:
    """Takes partitions that are unknown or denied out of the request; returns their answers."""
    refused: list[_Topic] = []
    denied = unreadable(context, request.topics)
    known: list[codec.OffsetDeleteRequestOffsetDeleteRequestTopic] = []
    for topic in request.topics:
        there, others, code = split_partitions(context, topic.name, topic.partitions, denied)
        if others:
            refused.append(
                _Topic(
                    topic.name,
                    [
                        codec.OffsetDeleteResponseOffsetDeleteResponsePartition(
                            one.partition_index, code
                        )
                        for one in others
                    ],
                )
            )
        if there or not others:
            topic.partitions = there
            known.append(topic)
    request.topics = known
    return refused


def _add_refused(response: codec.OffsetDeleteResponse, refused: list[_Topic]) -> None:
    if response.error_code:
        return
    answers = {topic.name: topic for topic in response.topics}
    for topic in refused:
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
