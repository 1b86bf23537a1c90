"""DescribeProducers v0: the idempotent producers that partitions remember (KIP-664).

Behaviour
- Leaders answer; each is asked once, and answers come back in the order of the request.
- A producer is listed until it expires (producer.id.expiration.ms) or is the longest silent of too
  many. Coordinator epoch and start of the transaction are -1 without transactions.

Deviations
- The port does not choose the replica: in Kafka the broker that is asked answers for its own.
"""

from collections.abc import Sequence

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.fan_out import Routed, ask_leaders, route_of
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import describe_producers as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Resource, ResourceType

_Answer = codec.DescribeProducersResponsePartitionResponse


async def handle(
    context: RequestContext, request: codec.DescribeProducersRequest
) -> codec.DescribeProducersResponse:
    """Asks the leaders."""
    answers: dict[tuple[int, int], _Answer] = {}
    questions: list[Routed[pb.ProducersQuestion]] = []
    places: list[tuple[int, int]] = []
    for t, topic in enumerate(request.topics):
        allowed = context.allows(AclOperation.READ, Resource(ResourceType.TOPIC, topic.name))
        for p, index in enumerate(topic.partition_indexes):
            routed = (
                _question(context, topic.name, index)
                if allowed
                else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            if isinstance(routed, Routed):
                questions.append(routed)
                places.append((t, p))
            else:
                answers[t, p] = _Answer(index, routed)

    timeout_s = context.backend.settings.request_timeout_ms / 1000

    async def ask(
        link: NodeLink, partitions: list[pb.ProducersQuestion]
    ) -> Sequence[pb.ProducersAnswer]:
        asked = pb.DescribeProducersRequest(instance=context.peer.instance, partitions=partitions)
        return (await link.describe_producers(asked, timeout_s)).results

    results = await ask_leaders(
        context, questions, ask, lambda code: pb.ProducersAnswer(error_code=code)
    )
    for (t, p), result in zip(places, results, strict=True):
        answers[t, p] = _answer(request.topics[t].partition_indexes[p], result)
    return codec.DescribeProducersResponse(
        topics=[
            codec.DescribeProducersResponseTopicResponse(
                topic.name, [answers[t, p] for p in range(len(topic.partition_indexes))]
            )
            for t, topic in enumerate(request.topics)
        ]
    )


def failure(
    request: codec.DescribeProducersRequest, _version: int, code: int
) -> codec.DescribeProducersResponse:
    """The code for every partition."""
    return codec.DescribeProducersResponse(
        topics=[
            codec.DescribeProducersResponseTopicResponse(
                topic.name, [_Answer(index, code) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _question(
    context: RequestContext, topic: str, index: int
) -> Routed[pb.ProducersQuestion] | ErrorCode:
    way = route_of(context, topic, index)
    if isinstance(way, ErrorCode):
        return way
    route, link = way
    return Routed(link, pb.ProducersQuestion(topic_id=route.topic_id, partition=route.partition))


def _answer(index: int, result: pb.ProducersAnswer) -> _Answer:
    return _Answer(
        index,
        result.error_code,
        active_producers=[
            codec.DescribeProducersResponseProducerState(
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.last_timestamp,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in result.producers
        ],
    )
