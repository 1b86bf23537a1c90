"""OffsetForLeaderEpoch v2-4: the end offset of a leader epoch, so that clients notice truncation.

Behaviour
- Leaders answer for the largest epoch up to the requested one, or -1/-1 if there is none (KIP-320).
- Without CLUSTER_ACTION on the cluster and DESCRIBE on a topic its partitions are
  TOPIC_AUTHORIZATION_FAILED.
- The client's own leader epoch goes to the leader unchanged (decision 15).

Version notes
- v2: leader epoch of the client. v3: replica id, -1 or -2 for consumers. v4: flexible.
"""

from collections.abc import Sequence

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.authorization import denied_topics
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.fan_out import Routed, ask_leaders, route_of
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderEpochResponseOffsetForLeaderTopicResult,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER

_Answer = OffsetForLeaderEpochResponseEpochEndOffset


async def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Asks the leaders."""
    answers: dict[tuple[int, int], _Answer] = {}
    questions: list[Routed[pb.EpochQuestion]] = []
    places: list[tuple[int, int]] = []
    denied: frozenset[str] = frozenset()
    if not context.allows(AclOperation.CLUSTER_ACTION, THE_CLUSTER):
        names = (topic.topic for topic in request.topics)
        denied = denied_topics(context, AclOperation.DESCRIBE, names)
    for t, topic in enumerate(request.topics):
        for p, wanted in enumerate(topic.partitions):
            if topic.topic in denied:
                answers[t, p] = _Answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted.partition)
                continue
            way = route_of(context, topic.topic, wanted.partition)
            if isinstance(way, ErrorCode):
                answers[t, p] = _Answer(way, wanted.partition)
                continue
            route, link = way
            question = pb.EpochQuestion(
                topic_id=route.topic_id,
                partition=route.partition,
                current_leader_epoch=wanted.current_leader_epoch,
                leader_epoch=wanted.leader_epoch,
            )
            questions.append(Routed(link, question))
            places.append((t, p))

    timeout_s = context.backend.settings.request_timeout_ms / 1000

    async def ask(link: NodeLink, partitions: list[pb.EpochQuestion]) -> Sequence[pb.EpochAnswer]:
        asked = pb.OffsetsForLeaderEpochRequest(
            instance=context.peer.instance, partitions=partitions
        )
        return (await link.offsets_for_leader_epoch(asked, timeout_s)).results

    results = await ask_leaders(context, questions, ask, _failed)
    for (t, p), result in zip(places, results, strict=True):
        answers[t, p] = _Answer(
            result.error_code,
            request.topics[t].partitions[p].partition,
            result.leader_epoch,
            result.end_offset,
        )
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseOffsetForLeaderTopicResult(
                topic.topic, [answers[t, p] for p in range(len(topic.partitions))]
            )
            for t, topic in enumerate(request.topics)
        ]
    )


def failure(
    request: OffsetForLeaderEpochRequest, _version: int, code: int
) -> OffsetForLeaderEpochResponse:
    """The code for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseOffsetForLeaderTopicResult(
                topic.topic, [_Answer(code, wanted.partition) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _failed(code: int) -> pb.EpochAnswer:
    return pb.EpochAnswer(error_code=code, leader_epoch=-1, end_offset=-1)
