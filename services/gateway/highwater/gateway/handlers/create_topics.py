"""CreateTopics v2-7: creates topics with partitions, replicas and configs.

Behaviour
- The controller decides and places; each topic succeeds or fails by itself. Any broker takes the
  request, as each gateway forwards it.
- A count of -1 means the broker's default (num.partitions, default.replication.factor). If the
  request assigns replicas, both counts must be -1.
- A duplicate name is not created and has one result, INVALID_REQUEST.
- Without CREATE on the cluster or the topic: TOPIC_AUTHORIZATION_FAILED. Without DESCRIBE_CONFIGS on
  it, the answer has neither its configs nor the number of partitions and replicas (v5+).
- A config without a value is INVALID_CONFIG.
- While the client owes partitions to its controller_mutation_rate, a topic is THROTTLING_QUOTA_EXCEEDED (KIP-599);
  before v6 it is created, and the client throttled. Topics that the controller refuses, and those of a
  request that only validates, count as well.
- The answer comes when this gateway's image has the topic, or after the propagation time.

Version notes
- v4: defaults (KIP-464). v5: flexible; partitions, replication factor and configs in the answer
  (KIP-525). v6: THROTTLING_QUOTA_EXCEEDED. v7: topic id.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import (
    await_visible,
    call_timeout_s,
    duplicates,
    propagation_ms,
)
from highwater.gateway.handling.authorization import denied_topics
from highwater.gateway.handling.config_view import ConfigEntry, topic_entries
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsResponse,
    CreateTopicsResponseCreatableTopicConfigs,
    CreateTopicsResponseCreatableTopicResult,
)
from highwater.metadata.convert import topic_from_pb
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER

DEFAULT: Final = -1
RESULTS_IN_STEP: Final = 8
"""Topics whose configs are put into the answer in one turn of the loop: some 4 ms."""
STRICT_FROM: Final = 6
"""Version from which THROTTLING_QUOTA_EXCEEDED is known (KIP-599)."""

_Result = CreateTopicsResponseCreatableTopicResult


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Checks the request and asks the controller."""
    twice = duplicates(topic.name for topic in request.topics)
    denied: frozenset[str] = frozenset()
    if not context.allows(AclOperation.CREATE, THE_CLUSTER):
        names = (topic.name for topic in request.topics if topic.name not in twice)
        denied = denied_topics(context, AclOperation.CREATE, names)
    results: dict[str, _Result] = {}
    wishes: list[pb.NewTopic] = []
    for topic in request.topics:
        refusal = _refusal(topic, twice, denied)
        results[topic.name] = refusal or _Result(name=topic.name)
        if refusal is not None:
            continue
        wish = _wish(context, topic)
        partitions = len(topic.assignments) or max(0, wish.partitions)
        if context.quota.may_change(partitions, strict=context.api_version >= STRICT_FROM):
            wishes.append(wish)
        else:
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            results[topic.name] = _refused(topic.name, code, code.message)
    if wishes:
        response = await context.backend.controller.create_topics(
            pb.CreateTopicsRequest(
                instance=context.peer.instance,
                topics=wishes,
                validate_only=request.validate_only,
                timeout_ms=propagation_ms(request.timeout_ms),
            ),
            timeout_s=call_timeout_s(context),
        )
        if not request.validate_only:
            await await_visible(context, response.revision)
        hidden = denied_topics(
            context, AclOperation.DESCRIBE_CONFIGS, (wish.name for wish in wishes)
        )
        for number, (wish, result) in enumerate(zip(wishes, response.results, strict=True)):
            results[wish.name] = _result(context, wish.name, result, hidden)
            if number % RESULTS_IN_STEP == RESULTS_IN_STEP - 1:
                await asyncio.sleep(0)
    return CreateTopicsResponse(topics=list(results.values()))


def failure(request: CreateTopicsRequest, _version: int, code: int) -> CreateTopicsResponse:
    """The code for every topic."""
    names: Sequence[str] = list(dict.fromkeys(topic.name for topic in request.topics))
    message = ErrorCode(code).message
    return CreateTopicsResponse(topics=[_refused(name, code, message) for name in names])


def _refusal(
    topic: CreateTopicsRequestCreatableTopic, twice: frozenset[str], denied: frozenset[str]
) -> _Result | None:
    """Checks the request by itself; the controller checks it against the image."""
    if topic.name in twice:
        why = "the topic stands twice in the request"
        return _refused(topic.name, ErrorCode.INVALID_REQUEST, why)
    if topic.name in denied:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return _refused(topic.name, code, code.message)
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        why = f"null value not supported for topic configs: {', '.join(without_value)}"
        return _refused(topic.name, ErrorCode.INVALID_CONFIG, why)
    if any(one.partition_index < 0 for one in topic.assignments):
        why = "partitions are numbered from 0 on"
        return _refused(topic.name, ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return None


def _wish(context: RequestContext, topic: CreateTopicsRequestCreatableTopic) -> pb.NewTopic:
    settings = context.backend.settings
    partitions, factor = topic.num_partitions, topic.replication_factor
    if not topic.assignments:
        partitions = settings.partitions_default if partitions == DEFAULT else partitions
        factor = settings.replication_factor_default if factor == DEFAULT else factor
    return pb.NewTopic(
        name=topic.name,
        partitions=partitions,
        replication_factor=factor,
        assignments=[
            pb.Assignment(partition=one.partition_index, replicas=one.broker_ids)
            for one in topic.assignments
        ],
        configs={config.name: config.value or "" for config in topic.configs},
    )


def _result(
    context: RequestContext, name: str, result: pb.TopicResult, hidden: frozenset[str]
) -> _Result:
    """The answer for a topic; `hidden` are those whose configs the client may not see."""
    code = result.error.error_code
    if code:
        return _refused(name, code, result.error.message or ErrorCode(code).message)
    topic = topic_from_pb(result.topic)
    if name in hidden:
        return _Result(
            name=name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    entries = topic_entries(context.backend.image, topic)
    return _Result(
        name=name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[_config(entry) for entry in entries],
    )


def _config(entry: ConfigEntry) -> CreateTopicsResponseCreatableTopicConfigs:
    return CreateTopicsResponseCreatableTopicConfigs(
        entry.name, entry.value, entry.read_only, entry.source, entry.sensitive
    )


def _refused(name: str, code: int, message: str) -> _Result:
    return _Result(name=name, error_code=code, error_message=message, configs=None)
