"""OffsetFetch v1-10: returns the committed offsets of groups.

Behaviour
- For one group the body passes undecoded to its coordinator. v8 may name several (KIP-709): each
  goes to its own coordinator, and the results come back in the order of the request.
- An error of the whole call is at the group from v2 on, in v1 at each partition.
- Without DESCRIBE on a group its error is GROUP_AUTHORIZATION_FAILED. Without DESCRIBE on a topic its
  partitions are TOPIC_AUTHORIZATION_FAILED; a group's answer about all topics leaves it out.
- v10 names topics by id. Coordinators keep offsets by topic name, so they get v9: the gateway maps
  ids to names and back. An unknown id, or one of another instance, is UNKNOWN_TOPIC_ID at each of
  its partitions; an answer for all topics leaves out those that do not exist, as in Kafka.

Version notes
- v2: all topics (null), top-level error. v3: throttle time. v5: leader epoch. v6: flexible.
  v7: require stable. v8: several groups.
- v9 has ids and epochs of members of consumer groups (KIP-848); for classic groups they mean nothing,
  as in Kafka (`ClassicGroup.validateOffsetFetch`). v10: topics by id.

Deviations
- While a group's coordinator cannot be asked, or moves, the error is COORDINATOR_LOAD_IN_PROGRESS, where
  Kafka's broker answers NOT_COORDINATOR: librdkafka does not repeat an OffsetFetch after that (decision 234).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from highwater.gateway.handling.authorization import (
    allowed_on_group,
    denied_groups,
    denied_topics,
)
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import ask_coordinator, forward
from highwater.gateway.handling.group_fan_out import ask_coordinators
from highwater.gateway.handling.group_id import read_count, read_group_id
from highwater.gateway.handling.topics_by_id import topic_by_id
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import offset_fetch as codec
from highwater.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
    OffsetFetchRequestOffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseOffsetFetchResponseGroup,
    OffsetFetchResponseOffsetFetchResponsePartition,
    OffsetFetchResponseOffsetFetchResponsePartitions,
    OffsetFetchResponseOffsetFetchResponseTopic,
    OffsetFetchResponseOffsetFetchResponseTopics,
)
from highwater.model.acl_operations import AclOperation

TOP_LEVEL_ERROR_FROM: Final = 2
GROUPS_FROM: Final = 8
BY_ID_FROM: Final = 10
BY_NAME_LAST: Final = 9
"""The coordinator's version of a request that names topics by id."""

_AskedGroup = OffsetFetchRequestOffsetFetchRequestGroup
_Group = OffsetFetchResponseOffsetFetchResponseGroup
_Topic = OffsetFetchResponseOffsetFetchResponseTopic
_Topics = OffsetFetchResponseOffsetFetchResponseTopics


class _Named(Protocol):
    """A topic in a request or a response."""

    name: str


_T = TypeVar("_T", bound=_Named)

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_ELSEWHERE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Codes after which a client has to ask again, and librdkafka's consumers instead read nothing any more."""


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the group's coordinator, or each group to its own."""
    version = context.api_version
    if version >= BY_ID_FROM:
        request = codec.decode_request(body, 0, version)
        return codec.encode_response(await _fetch_by_id(context, request), version)
    pos = 0
    several = False
    if version >= GROUPS_FROM:
        count, pos = read_count(body)
        several = count != 1
    # Topics are behind the group id. To ask for them everything has to be decoded, which no
    # gateway needs to do that allows all.
    if several or not context.backend.authorizer.allows_all:
        request = codec.decode_request(body, 0, version)
        fetch = _fetch_each if version >= GROUPS_FROM else _fetch_one
        return codec.encode_response(await fetch(context, request), version)
    group_id, _ = read_group_id(body, flexible=version >= codec.FLEXIBLE_FROM, pos=pos)
    return await forward(
        context,
        body,
        group_id,
        operation=AclOperation.DESCRIBE,
        codec=codec,
        failure=failure,
        deadline_ms=context.backend.settings.request_timeout_ms,
    )


def failure(request: OffsetFetchRequest, version: int, code: int) -> OffsetFetchResponse:
    """The code at the outermost place that the version has."""
    code = _told(code)
    if version >= GROUPS_FROM:
        return OffsetFetchResponse(
            groups=[_Group(group_id=group.group_id, error_code=code) for group in request.groups]
        )
    if version >= TOP_LEVEL_ERROR_FROM:
        return OffsetFetchResponse(error_code=code)
    return OffsetFetchResponse(
        topics=[
            _refused_topic(topic.name, topic.partition_indexes, code)
            for topic in request.topics or ()
        ]
    )


def _told(code: int) -> int:
    """The code that all clients answer with another OffsetFetch to the same address, from where the
    gateway finds the coordinator.
    """
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code in _ELSEWHERE else code


async def _fetch_one(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Asks for the one group of versions before 8."""
    version = context.api_version
    group_id = request.group_id
    if not allowed_on_group(context, AclOperation.DESCRIBE, group_id):
        return failure(request, version, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    visible, denied = _split(context, request.topics)
    part = OffsetFetchRequest(group_id, visible, require_stable=request.require_stable)
    code, body = await ask_coordinator(
        context,
        group_id,
        codec.encode_request(part, version),
        context.backend.settings.request_timeout_ms,
    )
    if code:
        return failure(request, version, code)
    response = codec.decode_response(memoryview(body), 0, version)
    if not response.error_code:
        refused = (_refused_topic(one.name, one.partition_indexes, _DENIED) for one in denied)
        response.topics = [*_seen(context, visible, response.topics), *refused]
    return response


async def _fetch_each(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Asks for all groups of version 8 that the client may describe."""
    version = context.api_version

    def encode(groups: list[_AskedGroup]) -> bytes:
        part = OffsetFetchRequest(groups=groups, require_stable=request.require_stable)
        return codec.encode_request(part, version)

    hidden = denied_groups(context, AclOperation.DESCRIBE, (one.group_id for one in request.groups))
    allowed = [group for group in request.groups if group.group_id not in hidden]
    parts = [_split(context, group.topics) for group in allowed]
    groups = await ask_coordinators(
        context,
        [
            _AskedGroup(group.group_id, group.member_id, group.member_epoch, visible)
            for group, (visible, _) in zip(allowed, parts, strict=True)
        ],
        id_of=lambda group: group.group_id,
        encode=encode,
        decode=lambda body: codec.decode_response(body, 0, version).groups,
        failed=lambda group, code: _Group(group_id=group.group_id, error_code=_told(code)),
    )
    for group, (visible, denied) in zip(groups, parts, strict=True):
        if not group.error_code:
            refused = (_refused_topics(topic, _DENIED) for topic in denied)
            group.topics = [*_seen(context, visible, group.topics), *refused]
    answers = iter(groups)
    return OffsetFetchResponse(
        groups=[
            _Group(group_id=asked.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if asked.group_id in hidden
            else next(answers)
            for asked in request.groups
        ]
    )


async def _fetch_by_id(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Asks for all groups by the names of their topics, and answers by the ids (version 10)."""
    unknown = [_take_unknown(context, group) for group in request.groups]
    ids = {topic.name: topic.topic_id for group in request.groups for topic in group.topics or ()}
    response = await _fetch_each(replace(context, api_version=BY_NAME_LAST), request)
    for group, asked, missing in zip(response.groups, request.groups, unknown, strict=True):
        if group.error_code:
            continue
        topics = []
        for topic in group.topics:
            if asked.topics is None:
                state = context.backend.image.topic(topic.name, context.peer.instance)
                if state is None:
                    continue
                topic.topic_id = state.topic_id
            else:
                topic.topic_id = ids[topic.name]
            topics.append(topic)
        group.topics = [*topics, *missing]
    return response


def _take_unknown(context: RequestContext, group: _AskedGroup) -> list[_Topics]:
    """Gives the topics of a group their names; takes out those without, and answers for them."""
    unknown, known = [], []
    for topic in group.topics or ():
        state = topic_by_id(context, topic.topic_id)
        if state is None:
            unknown.append(_refused_topics(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        else:
            topic.name = state.name
            known.append(topic)
    if group.topics is not None:
        group.topics = known
    return unknown


def _split(
    context: RequestContext, topics: Sequence[_T] | None
) -> tuple[list[_T] | None, list[_T]]:
    """The topics to ask for, None for all of the group, and those that the client may not see."""
    if topics is None:
        return None, []
    hidden = denied_topics(context, AclOperation.DESCRIBE, (topic.name for topic in topics))
    visible = [topic for topic in topics if topic.name not in hidden]
    return visible, [topic for topic in topics if topic.name in hidden]


def _seen(
    context: RequestContext, visible: Sequence[object] | None, found: Sequence[_T]
) -> Sequence[_T]:
    """What the client may see of the answer; only an answer about all topics can have more."""
    if visible is not None:
        return found
    hidden = denied_topics(context, AclOperation.DESCRIBE, (topic.name for topic in found))
    return [topic for topic in found if topic.name not in hidden]


def _refused_topic(name: str, partitions: Iterable[int], code: int) -> _Topic:
    """A topic before version 8."""
    return _Topic(
        name,
        [
            OffsetFetchResponseOffsetFetchResponsePartition(
                partition_index=partition, committed_offset=-1, error_code=code
            )
            for partition in partitions
        ],
    )


def _refused_topics(asked: OffsetFetchRequestOffsetFetchRequestTopics, code: int) -> _Topics:
    """A topic from version 8 on."""
    return _Topics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            OffsetFetchResponseOffsetFetchResponsePartitions(
                partition_index=partition, committed_offset=-1, error_code=code
            )
            for partition in asked.partition_indexes
        ],
    )
