"""CreatePartitions v0-3: adds partitions to topics; partitions cannot be removed.

Behaviour
- Every topic of the request has a result. A count that is not larger than the current one is
  INVALID_PARTITIONS, an unknown topic UNKNOWN_TOPIC_OR_PARTITION, a duplicate one INVALID_REQUEST.
- Without ALTER on a topic: TOPIC_AUTHORIZATION_FAILED.
- While the client owes partitions to its controller_mutation_rate: THROTTLING_QUOTA_EXCEEDED (KIP-599); before v3
  the topic grows, and the client is throttled.
- The request may assign the replicas, with one list for each new partition. An empty list of them is
  INVALID_REPLICA_ASSIGNMENT; null leaves the choice to the controller.

Version notes
- v2: flexible. v3: THROTTLING_QUOTA_EXCEEDED.

Deviations
- Internal topics cannot grow (INVALID_TOPIC_EXCEPTION): the number of partitions determines the
  coordinator of a group, and nearly all groups would lose their offsets. Kafka leaves this check
  to kafka-topics.sh.
"""

from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import (
    await_visible,
    call_timeout_s,
    code_by_name,
    duplicates,
    propagation_ms,
)
from highwater.gateway.handling.authorization import denied_topics
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseCreatePartitionsTopicResult,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.cluster import TopicState

STRICT_FROM: Final = 3
"""Version from which THROTTLING_QUOTA_EXCEEDED is known (KIP-599)."""

_Result = CreatePartitionsResponseCreatePartitionsTopicResult


async def handle(
    context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Resolves the topics and asks the controller."""
    twice = duplicates(topic.name for topic in request.topics)
    names = (topic.name for topic in request.topics if topic.name not in twice)
    denied = denied_topics(context, AclOperation.ALTER, names)
    results: dict[str, _Result] = {}
    growths: dict[str, pb.TopicGrowth] = {}
    for asked in request.topics:
        topic = context.backend.image.topic(asked.name, context.peer.instance)
        results[asked.name] = _Result(asked.name)
        if asked.name in twice:
            results[asked.name] = _refused(asked.name, ErrorCode.INVALID_REQUEST)
        elif asked.name in denied:
            results[asked.name] = _refused(asked.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif topic is None:
            results[asked.name] = _refused(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif topic.internal:
            why = "the number of partitions of internal topics cannot be changed"
            results[asked.name] = _refused(asked.name, ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        elif (empty := _empty_assignment(topic, asked)) is not None:
            results[asked.name] = _refused(asked.name, ErrorCode.INVALID_REPLICA_ASSIGNMENT, empty)
        elif not _may_grow(context, topic, asked.count):
            results[asked.name] = _refused(asked.name, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        else:
            growths[asked.name] = _growth(topic, asked)
    if growths:
        response = await context.backend.controller.create_partitions(
            pb.CreatePartitionsRequest(
                instance=context.peer.instance,
                topics=growths.values(),
                validate_only=request.validate_only,
                timeout_ms=propagation_ms(request.timeout_ms),
            ),
            timeout_s=call_timeout_s(context),
        )
        for name, error in zip(growths, response.errors, strict=True):
            if error.error_code:
                results[name] = _refused(name, code_by_name(error.error_code), error.message)
        if not request.validate_only:
            await await_visible(context, response.revision)
    return CreatePartitionsResponse(results=list(results.values()))


def failure(request: CreatePartitionsRequest, _version: int, code: int) -> CreatePartitionsResponse:
    """The code for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(results=[_refused(name, code) for name in names])


def _may_grow(context: RequestContext, topic: TopicState, count: int) -> bool:
    """False while the client owes partitions to its quota. What adds none takes nothing."""
    new = count - len(topic.partitions)
    strict = context.api_version >= STRICT_FROM
    return new <= 0 or context.quota.may_change(new, strict=strict)


def _empty_assignment(
    topic: TopicState, asked: CreatePartitionsRequestCreatePartitionsTopic
) -> str | None:
    """Why an empty list is refused, which protobuf does not tell from null; None if it is not.

    Kafka: `ReplicationControlManager.createPartitions`, which looks at the count first.
    """
    new = asked.count - len(topic.partitions)
    if asked.assignments is None or asked.assignments or new <= 0:
        return None
    return (
        f"Attempted to add {new} additional partition(s), but only 0 assignment(s) were specified."
    )


def _growth(
    topic: TopicState, asked: CreatePartitionsRequestCreatePartitionsTopic
) -> pb.TopicGrowth:
    present = len(topic.partitions)
    return pb.TopicGrowth(
        topic_id=topic.topic_id,
        count=asked.count,
        assignments=[
            pb.Assignment(partition=number, replicas=one.broker_ids)
            for number, one in enumerate(asked.assignments or (), present)
        ],
    )


def _refused(name: str, code: int, message: str = "") -> _Result:
    return _Result(name, code, message or ErrorCode(code).message)
