"""DeleteTopics v1-6: deletes topics with all their data.

Behaviour
- Topics are given by name, from v6 also by id; the gateway maps names to ids. An unknown name is
  UNKNOWN_TOPIC_OR_PARTITION; an unknown id, or one of another instance, is UNKNOWN_TOPIC_ID.
- Without DELETE on the cluster or the topic: TOPIC_AUTHORIZATION_FAILED. A client that may not even
  DESCRIBE the topic gets that, too, if there is none of that name, and no name for an id.
- While the client owes partitions to its controller_mutation_rate: THROTTLING_QUOTA_EXCEEDED (KIP-599); before v5
  the topic is deleted, and the client throttled.
- A topic with both name and id, or with neither, is INVALID_REQUEST, and so is a name or an id that stands twice,
  which gets one answer: whoever asks, as Kafka looks for these before it asks its authorizer. A name
  and an id of the same topic are that only to those who may delete it, and get one answer, too.

Version notes
- v1: throttle time. v4: flexible. v5: error message. v6: ids (KIP-516).

Deviations
- Internal topics cannot be deleted (INVALID_TOPIC_EXCEPTION): all groups would be lost. Kafka leaves
  that to its ACLs.
"""

from collections import Counter
from collections.abc import Mapping
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


class _Key(NamedTuple):
    """How a topic is asked for: by the one or by the other, or it is invalid."""

    name: str | None
    topic_id: TopicId


class _Refusal(NamedTuple):
    """Why there is nothing to delete."""

    code: ErrorCode
    message: str


_Found = TopicState | _Refusal


class _Denied(NamedTuple):
    """Names of topics that the client may not delete, and that it may not even know."""

    delete: frozenset[str] = frozenset()
    describe: frozenset[str] = frozenset()


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Resolves the topics and asks the controller."""
    times = Counter(_Key(one.name, TopicId(one.topic_id)) for one in _asked(request))
    found = {key: _find(context, key, count) for key, count in times.items()}
    denied = _denied(context, found)
    twice = _asked_for_twice(found, times)
    results: list[_Result] = []
    doomed: dict[_Key, _Result] = {}
    for key, topic in found.items():
        denial = _denial(key, topic, denied)
        if denial is not None:
            results.append(denial)
        elif isinstance(topic, _Refusal):
            results.append(_refused(key, *topic))
        elif topic.topic_id in twice:
            if key.name is not None:
                code, why = ErrorCode.INVALID_REQUEST, "The topic is asked for by its id as well."
                results.append(_Result(key.name, topic.topic_id, code, why))
        elif topic.internal:
            why = "internal topics cannot be deleted"
            results.append(_refused(key, ErrorCode.INVALID_TOPIC_EXCEPTION, why))
        elif not context.quota.may_change(
            len(topic.partitions), strict=context.api_version >= STRICT_FROM
        ):
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            results.append(_refused(key, code, code.message))
        else:
            results.append(_Result(topic.name, topic.topic_id))
            doomed[key] = results[-1]
    if doomed:
        await _delete(context, doomed, request.timeout_ms)
    return DeleteTopicsResponse(responses=results)


def failure(request: DeleteTopicsRequest, _version: int, code: int) -> DeleteTopicsResponse:
    """The code for every topic."""
    message = ErrorCode(code).message
    return DeleteTopicsResponse(
        responses=[_Result(one.name, one.topic_id, code, message) for one in _asked(request)]
    )


async def _delete(context: RequestContext, doomed: dict[_Key, _Result], timeout_ms: int) -> None:
    response = await context.backend.controller.delete_topics(
        pb.DeleteTopicsRequest(
            instance=context.peer.instance,
            topic_ids=[result.topic_id for result in doomed.values()],
            timeout_ms=propagation_ms(timeout_ms),
        ),
        timeout_s=call_timeout_s(context),
    )
    for (key, result), error in zip(doomed.items(), response.errors, strict=True):
        if error.error_code:
            code = error.error_code if key.name is None else code_by_name(error.error_code)
            result.error_code = code
            result.error_message = error.message or ErrorCode(code).message
    await await_visible(context, response.revision)


def _asked(request: DeleteTopicsRequest) -> list[_Asked]:
    """The topics of v6, or those of older versions in the same form."""
    return list(request.topics) or [_Asked(name) for name in request.topic_names]


def _find(context: RequestContext, key: _Key, times: int) -> _Found:
    name, topic_id = key
    if name is not None and topic_id != NO_TOPIC_ID:
        why = "You may not specify both topic name and topic id."
        return _Refusal(ErrorCode.INVALID_REQUEST, why)
    if name is None and topic_id == NO_TOPIC_ID:
        why = "Neither topic name nor id were specified."
        return _Refusal(ErrorCode.INVALID_REQUEST, why)
    if times > 1:
        why = "Duplicate topic id." if name is None else "Duplicate topic name."
        return _Refusal(ErrorCode.INVALID_REQUEST, why)
    if name is None:
        topic, unknown = topic_by_id(context, topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = context.backend.image.topic(name, context.peer.instance)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _Refusal(unknown, unknown.message) if topic is None else topic


def _asked_for_twice(found: Mapping[_Key, _Found], times: Mapping[_Key, int]) -> frozenset[TopicId]:
    """The topics that are asked for by name, and by an id as well."""
    ids = {key.topic_id for key in times if key.name is None}
    named = {
        t.topic_id for key, t in found.items() if isinstance(t, TopicState) and key.name is not None
    }
    return frozenset(ids & named)


def _denied(context: RequestContext, found: Mapping[_Key, _Found]) -> _Denied:
    """Kafka: `ControllerApis.deleteTopics`."""
    if context.allows(AclOperation.DELETE, THE_CLUSTER):
        return _Denied()
    names = [
        name
        for key, topic in found.items()
        if (name := topic.name if isinstance(topic, TopicState) else key.name) is not None
    ]
    return _Denied(
        denied_topics(context, AclOperation.DELETE, names),
        denied_topics(context, AclOperation.DESCRIBE, names),
    )


def _denial(key: _Key, found: _Found, denied: _Denied) -> _Result | None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if isinstance(found, TopicState):
        if found.name not in denied.delete | denied.describe:
            return None
        if key.name is None and found.name not in denied.describe:
            return _Result(found.name, key.topic_id, code, code.message)
    elif found.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or key.name not in denied.describe:
        return None
    return _refused(key, code, code.message)


def _refused(key: _Key, code: int, message: str) -> _Result:
    return _Result(key.name, key.topic_id, code, message)
