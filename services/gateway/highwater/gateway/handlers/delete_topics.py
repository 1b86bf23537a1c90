"""DeleteTopics v1-6: deletes topics with all their data.

Behaviour
- Topics are given by name, from v6 also by id; the gateway maps names to ids. An unknown name is
  UNKNOWN_TOPIC_OR_PARTITION; an unknown id, or one of another instance, is UNKNOWN_TOPIC_ID.
- Without DELETE on the cluster or the topic: TOPIC_AUTHORIZATION_FAILED. A client that may not even
  DESCRIBE the topic gets that, too, if there is none of that name, and no name for an id.
- While the client owes partitions to its controller_mutation_rate: THROTTLING_QUOTA_EXCEEDED (KIP-599); before v5
  the topic is deleted, and the client throttled.
- A topic with both name and id, with neither, or named twice is INVALID_REQUEST.

Version notes
- v1: throttle time. v4: flexible. v5: error message. v6: ids (KIP-516).

Deviations
- Internal topics cannot be deleted (INVALID_TOPIC_EXCEPTION): all groups would be lost. Kafka leaves
  that to its ACLs.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import (
    await_visible,
    call_timeout_s,
    code_by_name,
    propagation_ms,
)
from highwater.gateway.handling.authorization import denied_topics
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.topics_by_id import topic_by_id
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
    DeleteTopicsResponse,
    DeleteTopicsResponseDeletableTopicResult,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.cluster import TopicState
from highwater.model.ids import NO_TOPIC_ID, TopicId

STRICT_FROM: Final = 5
"""Version from which THROTTLING_QUOTA_EXCEEDED is known (KIP-599)."""

_Asked = DeleteTopicsRequestDeleteTopicState
_Result = DeleteTopicsResponseDeletableTopicResult


class _Denied(NamedTuple):
    """Names of topics that the client may not delete, and that it may not even know."""

    delete: frozenset[str] = frozenset()
    describe: frozenset[str] = frozenset()


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Resolves the topics and asks the controller."""
    asked = _asked(request)
    found = [_resolve(context, one) for one in asked]
    denied = _denied(context, asked, found)
    times = Counter(one.topic_id for one in found if isinstance(one, TopicState))
    results: list[_Result] = []
    doomed: dict[TopicId, _Result] = {}
    for one, topic in zip(asked, found, strict=True):
        denial = _denial(one, topic, denied)
        if denial is not None:
            results.append(denial)
        elif not isinstance(topic, TopicState):
            results.append(_refused(one, topic, topic.message))
        elif times[topic.topic_id] > 1:
            why = "the topic stands twice in the request"
            results.append(_refused(one, ErrorCode.INVALID_REQUEST, why))
        elif topic.internal:
            why = "internal topics cannot be deleted"
            results.append(_refused(one, ErrorCode.INVALID_TOPIC_EXCEPTION, why))
        elif not context.quota.may_change(
            len(topic.partitions), strict=context.api_version >= STRICT_FROM
        ):
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            results.append(_refused(one, code, code.message))
        else:
            results.append(_Result(topic.name, topic.topic_id))
            doomed[topic.topic_id] = results[-1]
    if doomed:
        await _delete(context, doomed, request.timeout_ms)
    for one, result in zip(asked, results, strict=True):
        if one.name is not None:
            result.error_code = code_by_name(result.error_code)
    return DeleteTopicsResponse(responses=results)


def failure(request: DeleteTopicsRequest, _version: int, code: int) -> DeleteTopicsResponse:
    """The code for every topic."""
    message = ErrorCode(code).message
    return DeleteTopicsResponse(responses=[_refused(one, code, message) for one in _asked(request)])


async def _delete(context: RequestContext, doomed: dict[TopicId, _Result], timeout_ms: int) -> None:
    response = await context.backend.controller.delete_topics(
        pb.DeleteTopicsRequest(
            instance=context.peer.instance,
            topic_ids=list(doomed),
            timeout_ms=propagation_ms(timeout_ms),
        ),
        timeout_s=call_timeout_s(context),
    )
    for result, error in zip(doomed.values(), response.errors, strict=True):
        if error.error_code:
            result.error_code = error.error_code
            result.error_message = error.message or ErrorCode(error.error_code).message
    await await_visible(context, response.revision)


def _asked(request: DeleteTopicsRequest) -> list[_Asked]:
    """The topics of v6, or those of older versions in the same form."""
    return list(request.topics) or [_Asked(name) for name in request.topic_names]


def _resolve(context: RequestContext, asked: _Asked) -> TopicState | ErrorCode:
    image = context.backend.image
    by_id = asked.topic_id != NO_TOPIC_ID
    if (asked.name is not None) == by_id:
        return ErrorCode.INVALID_REQUEST
    if asked.name is not None:
        named = image.topic(asked.name, context.peer.instance)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if named is None else named
    topic = topic_by_id(context, asked.topic_id)
    return ErrorCode.UNKNOWN_TOPIC_ID if topic is None else topic


def _denied(
    context: RequestContext, asked: Sequence[_Asked], found: Sequence[TopicState | ErrorCode]
) -> _Denied:
    """Kafka: `ControllerApis.deleteTopics`."""
    if context.allows(AclOperation.DELETE, THE_CLUSTER):
        return _Denied()
    names = [
        name
        for one, topic in zip(asked, found, strict=True)
        if (name := topic.name if isinstance(topic, TopicState) else one.name) is not None
    ]
    return _Denied(
        denied_topics(context, AclOperation.DELETE, names),
        denied_topics(context, AclOperation.DESCRIBE, names),
    )


def _denial(asked: _Asked, found: TopicState | ErrorCode, denied: _Denied) -> _Result | None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if isinstance(found, TopicState):
        if found.name not in denied.delete | denied.describe:
            return None
        if asked.name is None and found.name not in denied.describe:
            return _Result(found.name, asked.topic_id, code, code.message)
    elif found != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or asked.name not in denied.describe:
        return None
    return _refused(asked, code, code.message)


def _refused(asked: _Asked, code: int, message: str) -> _Result:
    return _Result(asked.name, asked.topic_id, code, message)
