"""Metadata v0-13: the brokers, the topics, and the leaders of their partitions.

Behaviour
- Null topics (v1+), or an empty list in v0, mean all; an empty list in v1+ means none.
- A named topic that does not exist is created if the gateway's settings and the request allow it
  (v0-3 always do). Its partitions have their leaders if these are elected in time, otherwise
  LEADER_NOT_AVAILABLE. An illegal name is INVALID_TOPIC_EXCEPTION.
- A partition without a leader, or whose leader is fenced or has no gateway, is
  LEADER_NOT_AVAILABLE with leader -1.
- No answer has an older leader epoch than this gateway has sent before; with errors it sends leaders
  that nodes know (KIP-951), which may be newer than its image. The answer waits up to a second for
  the image; then the partition is LEADER_NOT_AVAILABLE.
- If a heartbeat says that the controller has a newer image, the answer waits up to a second for it:
  another gateway may have sent the client that image.
- Every node is a broker with the address of the gateway that the controller has assigned to it.
  Fenced nodes are not listed, though partitions still name them as replicas (offline ones, v5+).
  A fenced node is listed once more for a connection that got it before it was fenced, together with
  the new leaders (`brokers_for`). If all nodes are fenced, all are listed.
  The first live broker of the list is named as the controller.
- Addresses are those of the listener that the client came by. A broker without it is not listed, and
  partitions that it leads are LISTENER_NOT_FOUND (LEADER_NOT_AVAILABLE before v6), as in Kafka.
- A named topic that the client may not DESCRIBE is TOPIC_AUTHORIZATION_FAILED, whether it exists or
  not; an answer about all topics leaves it out. Creation needs CREATE on the cluster or the topic,
  with the same code.
- Authorized operations (v8+; of the cluster only up to v10) are sent if asked for; those of the cluster are none
  without DESCRIBE on it.
- From v12 on topics may be named by id. An id that is unknown, of a deleted topic or of another
  instance is UNKNOWN_TOPIC_ID with a null name. A request with ids is only about these; its names
  are ignored, and nothing is created, as in Kafka. Ids or null names in v10 and v11 are
  INVALID_REQUEST, as is a topic with neither. Without DESCRIBE the id is TOPIC_AUTHORIZATION_FAILED
  and has a null name.

Version notes
- v1: racks, controller id, internal topics. v2: cluster id. v4: creation can be forbidden.
  v5: offline replicas. v6: LISTENER_NOT_FOUND. v7: leader epochs. v8: authorized operations. v9: flexible.
- v10: topic ids in answers (KIP-516), which Fetch 13 and Produce 13 use. v11: without the cluster's
  authorized operations (KIP-700). v12: topics by id. v13: a top-level error code (KIP-1102), which
  a request that failed as a whole has; REBOOTSTRAP_REQUIRED is never sent.

Deviations
- Kafka creates topics in the background and first answers UNKNOWN_TOPIC_OR_PARTITION; here the
  first answer has the leaders in most cases.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from highwater.gateway.handling.authorization import (
    cluster_operations,
    denied_topics,
    topic_operations,
)
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.topic_creation import auto_topic, create_topics
from highwater.gateway.handling.topics_by_id import topic_by_id
from highwater.gateway.routing.brokers import (
    Broker,
    brokers_for,
    controller_among,
    no_leader_code,
    nodes_without,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseMetadataResponseBroker,
    MetadataResponseMetadataResponsePartition,
    MetadataResponseMetadataResponseTopic,
)
from highwater.model.acl_operations import NOT_ASKED, AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.cluster import PartitionState, TopicState
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    INTERNAL_TOPICS,
    NO_NODE,
    NO_TOPIC_ID,
    LeaderEpoch,
    NodeId,
    TopicId,
)
from highwater.model.topic_names import invalid_topic_name

NULL_MEANS_ALL_FROM: Final = 1
LISTENER_NOT_FOUND_FROM: Final = 6
BY_ID_FROM: Final = 12
CATCH_UP_MS_MAX: Final = 1_000
"""Longest wait for an image that nodes or other gateways have already."""

TOPICS_AT_ONCE: Final = 100
"""Answers about more topics are made one in each turn of the loop."""

Told = Mapping[tuple[TopicId, int], int]
"""Leader epochs that clients know already and the image does not."""


class _Asked(NamedTuple):
    """The topics that a request is about, without duplicates."""

    names: list[str] | None
    """None for all topics."""
    ids: list[TopicId]


async def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Answers from the newest image, after creating topics if need be."""
    if not _names_topics_rightly(request, context.api_version):
        return failure(request, context.api_version, ErrorCode.INVALID_REQUEST)
    asked = _asked(context, request)
    denials: list[MetadataResponseMetadataResponseTopic] = []
    codes: dict[str, int] = {}
    if asked.names:
        denials = _take_denied(context, request, asked.names)
        if request.allow_auto_topic_creation:
            codes = await _create_missing(context, asked.names)
    await _catch_up(context, asked)
    if asked.names is None or len(asked.names) + len(asked.ids) > TOPICS_AT_ONCE:
        async with context.backend.shared.long_answers:
            return _answer(context, request, asked, codes, denials)
    return _answer(context, request, asked, codes, denials)


def _answer(
    context: RequestContext,
    request: MetadataRequest,
    asked: _Asked,
    codes: Mapping[str, int],
    denials: list[MetadataResponseMetadataResponseTopic],
) -> MetadataResponse:
    """Answers from the newest image; `codes` are results of topic creation."""
    image = context.backend.image
    told = context.backend.routing.ahead
    entrance = context.peer.entrance
    brokers = brokers_for(
        image, entrance, context.backend.routing.fenced, context.client.told_revision
    )
    context.client.told_revision = image.revision
    live = {broker.node_id for broker in brokers if not broker.fenced}
    lacking: set[NodeId] = set()
    if context.api_version >= LISTENER_NOT_FOUND_FROM:
        lacking = nodes_without(image, entrance)
    instance = context.peer.instance
    topics: list[MetadataResponseMetadataResponseTopic] = []
    if asked.names is None:
        found = [topic for topic in image.topics.values() if topic.instance == instance]
        names = (topic.name for topic in found)
        denied = denied_topics(context, AclOperation.DESCRIBE, names)
        topics = [_topic(one, live, lacking, told) for one in found if one.name not in denied]
    known = {topic_id: topic_by_id(context, topic_id) for topic_id in asked.ids}
    hidden = _hidden(context, known.values())
    for topic_id, state in known.items():
        if state is not None and state.name not in hidden:
            topics.append(_topic(state, live, lacking, told))
        else:
            topics.append(_nameless(topic_id, known=state is not None))
    for name in asked.names or ():
        state = image.topic(name, instance)
        if state is not None:
            topics.append(_topic(state, live, lacking, told))
        else:
            topics.append(_missing(name, codes.get(name)))
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                topic.topic_authorized_operations = topic_operations(context, topic.name)
    return MetadataResponse(
        brokers=[_broker(broker) for broker in brokers],
        cluster_id=image.cluster_id,
        controller_id=controller_among(brokers),
        topics=topics + denials,
        cluster_authorized_operations=(
            cluster_operations(context)
            if request.include_cluster_authorized_operations
            else NOT_ASKED
        ),
    )


def failure(request: MetadataRequest, _version: int, code: int) -> MetadataResponse:
    """The code for every topic, and on top from v13 on (Kafka: `MetadataRequest`)."""
    topics = request.topics or ()
    return MetadataResponse(
        topics=[
            MetadataResponseMetadataResponseTopic(code, topic.name or "", topic.topic_id)
            for topic in topics
        ],
        error_code=code,
    )


def _names_topics_rightly(request: MetadataRequest, version: int) -> bool:
    """False for a topic without name and id, or with an id in a version that may not have any."""
    topics = request.topics or ()
    if version < BY_ID_FROM:
        return all(one.name is not None and one.topic_id == NO_TOPIC_ID for one in topics)
    return all(one.name is not None or one.topic_id != NO_TOPIC_ID for one in topics)


def _asked(context: RequestContext, request: MetadataRequest) -> _Asked:
    if request.topics is None:
        return _Asked(None, [])
    if not request.topics and context.api_version < NULL_MEANS_ALL_FROM:
        return _Asked(None, [])
    ids = [TopicId(topic.topic_id) for topic in request.topics if topic.topic_id != NO_TOPIC_ID]
    if ids:
        return _Asked([], list(dict.fromkeys(ids)))
    return _Asked(list(dict.fromkeys(topic.name or "" for topic in request.topics)), [])


def _hidden(context: RequestContext, states: Iterable[TopicState | None]) -> frozenset[str]:
    """The names of topics that the client may not know."""
    names = (state.name for state in states if state is not None)
    return denied_topics(context, AclOperation.DESCRIBE, names)


def _nameless(topic_id: TopicId, *, known: bool) -> MetadataResponseMetadataResponseTopic:
    """The answer for an id that is unknown, or denied: as in Kafka ids are no secret, names are."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if known else ErrorCode.UNKNOWN_TOPIC_ID
    return MetadataResponseMetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)


def _take_denied(
    context: RequestContext, request: MetadataRequest, names: list[str]
) -> list[MetadataResponseMetadataResponseTopic]:
    """Takes names out that the client may not know or create; returns their answers.

    Kafka: `KafkaApis.handleTopicMetadataRequest`. An answer does not say whether the topic exists.
    """
    hidden = denied_topics(context, AclOperation.DESCRIBE, names)
    backend = context.backend
    not_created: frozenset[str] = frozenset()
    if request.allow_auto_topic_creation and backend.settings.auto_create_topics:
        instance = context.peer.instance
        missing = [
            name
            for name in names
            if name not in hidden and backend.image.topic(name, instance) is None
        ]
        if missing and not context.allows(AclOperation.CREATE, THE_CLUSTER):
            not_created = denied_topics(context, AclOperation.CREATE, missing)
    denied = [name for name in names if name in hidden or name in not_created]
    if denied:
        names[:] = [name for name in names if name not in hidden and name not in not_created]
    return [
        MetadataResponseMetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            name=name,
            is_internal=name in not_created and name in INTERNAL_TOPICS,
        )
        for name in denied
    ]


async def _create_missing(context: RequestContext, names: Iterable[str]) -> dict[str, int]:
    """Creates the missing topics that may be created; returns their error codes by name."""
    backend = context.backend
    if not backend.settings.auto_create_topics:
        return {}
    instance = context.peer.instance
    wishes = [
        auto_topic(context, name)
        for name in names
        if backend.image.topic(name, instance) is None
        and invalid_topic_name(name) is None
        # Only the default instance has internal topics that clients see.
        and (instance == DEFAULT_INSTANCE or name not in INTERNAL_TOPICS)
    ]
    return await create_topics(context, wishes) if wishes else {}


async def _catch_up(context: RequestContext, asked: _Asked) -> None:
    """Waits until the image has the epochs that clients know, for a second at most.

    It also waits for the image that the controller had at the last heartbeat: another gateway may
    have sent it to the client.
    """
    backend = context.backend
    until_ms = backend.clock.monotonic_ms() + CATCH_UP_MS_MAX
    while _is_behind(context, asked):
        left_ms = until_ms - backend.clock.monotonic_ms()
        revision = max(backend.image.revision + 1, backend.routing.newest_revision)
        if left_ms <= 0 or not await backend.wait_for_revision(revision, left_ms / 1000):
            return


def _is_behind(context: RequestContext, asked: _Asked) -> bool:
    backend = context.backend
    ahead = backend.routing.ahead
    if backend.image.revision < backend.routing.newest_revision:
        return True
    if not ahead or asked.names is None:
        return bool(ahead)
    late = {topic_id for topic_id, _ in ahead}
    if not late.isdisjoint(asked.ids):
        return True
    states = (backend.image.topic(name, context.peer.instance) for name in asked.names)
    return any(state is not None and state.topic_id in late for state in states)


def _missing(name: str, creation_code: int | None) -> MetadataResponseMetadataResponseTopic:
    """The answer for a topic that is not in the image; `creation_code` is None if not created."""
    if invalid_topic_name(name) is not None:
        code: int = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif creation_code is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        code = creation_code or ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponseMetadataResponseTopic(error_code=code, name=name)


def _broker(broker: Broker) -> MetadataResponseMetadataResponseBroker:
    return MetadataResponseMetadataResponseBroker(
        broker.node_id, broker.host, broker.port, broker.rack or None
    )


def _topic(
    topic: TopicState, live: set[NodeId], lacking: set[NodeId], told: Told
) -> MetadataResponseMetadataResponseTopic:
    return MetadataResponseMetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[
            _partition(state, live, lacking, told.get((topic.topic_id, state.partition), -1))
            for state in topic.partitions
        ],
    )


def _partition(
    state: PartitionState, live: set[NodeId], lacking: set[NodeId], told_epoch: int
) -> MetadataResponseMetadataResponsePartition:
    led = state.leader in live and told_epoch <= state.leader_epoch
    return MetadataResponseMetadataResponsePartition(
        error_code=ErrorCode.NONE if led else no_leader_code(state.leader, lacking),
        partition_index=state.partition,
        leader_id=state.leader if led else NO_NODE,
        leader_epoch=LeaderEpoch(max(state.leader_epoch, told_epoch)),
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=[node for node in state.replicas if node not in live],
    )
