"""DeleteRecords v0-2: lets partitions begin at a later offset (KIP-107).

Behaviour
- Leaders answer; each is asked once, and answers come back in the order of the request.
- Records before the offset are deleted; -1 is the high watermark. An offset at or before the log
  start deletes nothing and is no error. One that is negative, or behind the high watermark, is
  OFFSET_OUT_OF_RANGE; a topic whose cleanup.policy is only `compact` is POLICY_VIOLATION.
- The answer has the low watermark, the smallest log start offset of all live replicas. It comes when
  that has reached the offset, or after the request's timeout with REQUEST_TIMED_OUT; the leader has
  deleted the records by then, and replicas that come back will.
- Internal topics are INVALID_TOPIC_EXCEPTION.

Version notes
- v1: quota violations delay the client (KIP-219). v2: flexible.

Deviations
- Any gateway takes a request for any leader; Kafka's broker answers NOT_LEADER_OR_FOLLOWER for others'.
- The log start offset is on the disks of all live replicas before the answer. Kafka writes it down
  every minute, so a crash may bring records back.
- No request waits longer than five minutes (`WAIT_MS_MAX`).
"""

from collections.abc import Sequence
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.fan_out import Routed, ask_leaders, route_of
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestDeleteRecordsPartition,
    DeleteRecordsRequestDeleteRecordsTopic,
    DeleteRecordsResponse,
    DeleteRecordsResponseDeleteRecordsPartitionResult,
    DeleteRecordsResponseDeleteRecordsTopicResult,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Resource, ResourceType

UNKNOWN: Final = -1
"""No low watermark."""

WAIT_MS_MAX: Final = 300_000
"""Longest wait for the replicas, as at the partition node."""

_Answer = DeleteRecordsResponseDeleteRecordsPartitionResult
_Question = Routed[pb.DeleteRecordsPartition]


async def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Asks the leaders."""
    answers: dict[tuple[int, int], _Answer] = {}
    questions: list[_Question] = []
    places: list[tuple[int, int]] = []
    for t, topic in enumerate(request.topics):
        refused = _refusal(context, topic)
        for p, wanted in enumerate(topic.partitions):
            question = refused or _question(context, topic.name, wanted)
            if isinstance(question, Routed):
                questions.append(question)
                places.append((t, p))
            else:
                answers[t, p] = _Answer(wanted.partition_index, UNKNOWN, question)

    wait_ms = min(max(request.timeout_ms, 0), WAIT_MS_MAX)
    timeout_s = (wait_ms + context.backend.settings.request_timeout_ms) / 1000

    async def ask(
        link: NodeLink, partitions: list[pb.DeleteRecordsPartition]
    ) -> Sequence[pb.DeleteRecordsResult]:
        asked = pb.DeleteRecordsRequest(
            instance=context.peer.instance, timeout_ms=wait_ms, partitions=partitions
        )
        return (await link.delete_records(asked, timeout_s)).results

    results = await ask_leaders(context, questions, ask, _failed)
    for (t, p), result in zip(places, results, strict=True):
        index = request.topics[t].partitions[p].partition_index
        answers[t, p] = _Answer(index, result.low_watermark, result.error_code)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseDeleteRecordsTopicResult(
                topic.name, [answers[t, p] for p in range(len(topic.partitions))]
            )
            for t, topic in enumerate(request.topics)
        ]
    )


def failure(request: DeleteRecordsRequest, _version: int, code: int) -> DeleteRecordsResponse:
    """The code for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseDeleteRecordsTopicResult(
                topic.name,
                [_Answer(asked.partition_index, UNKNOWN, code) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _refusal(
    context: RequestContext, topic: DeleteRecordsRequestDeleteRecordsTopic
) -> ErrorCode | None:
    """The code for all partitions of a topic, if the client may not do this to it."""
    if not context.allows(AclOperation.DELETE, Resource(ResourceType.TOPIC, topic.name)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None


def _question(
    context: RequestContext, topic: str, wanted: DeleteRecordsRequestDeleteRecordsPartition
) -> _Question | ErrorCode:
    way = route_of(context, topic, wanted.partition_index)
    known = context.backend.image.topic(topic, context.peer.instance)
    if known is not None and known.internal and way != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if isinstance(way, ErrorCode):
        return way
    route, link = way
    return Routed(
        link,
        pb.DeleteRecordsPartition(
            topic_id=route.topic_id, partition=route.partition, offset=wanted.offset
        ),
    )


def _failed(code: int) -> pb.DeleteRecordsResult:
    return pb.DeleteRecordsResult(error_code=code, low_watermark=UNKNOWN)
