"""FindCoordinator v0-6: which broker coordinates a group or the transactions of a transactional id.

Behaviour
- The address is that of the listener that the client came by; a coordinator without that listener is
  COORDINATOR_NOT_AVAILABLE.
- The first call for a group creates the group metadata topic and waits for it, the first one for a
  transactional id that of transaction states. Until it exists, and while the partition has no leader or
  a fenced one, the answer is COORDINATOR_NOT_AVAILABLE; clients ask again.
- All instances but the default one share two topics that no client sees, so there a key has another
  coordinator than the same key in another instance.
- v4 names several keys; each has its own result.
- Without DESCRIBE on a group: GROUP_AUTHORIZATION_FAILED; on a transactional id:
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
- Errors come with node -1, host "" and port -1, as in Kafka.
- The coordinator of a share group (v6) is COORDINATOR_NOT_AVAILABLE, as from a Kafka broker without
  one; only brokers ask for it. Before v6 it is INVALID_REQUEST.

Version notes
- v0: groups only. v1: key type, error message. v3: flexible. v4: batches (KIP-699).
- v5: TRANSACTION_ABORTABLE (KIP-890). v6: coordinators of share groups (KIP-932).
"""

from typing import Final, NamedTuple

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.topic_creation import coordinator_topic
from highwater.gateway.routing.brokers import broker_of, nodes_without
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Resource, ResourceType
from highwater.model.cluster import TopicState
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import GROUP_METADATA_TOPIC, NO_NODE, TRANSACTION_STATE_TOPIC

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
BATCHES_FROM: Final = 4
SHARE_FROM: Final = 6

_KINDS: Final = {
    GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION: (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}
"""What a key names, and the code if the client may not describe it."""

_TOPICS: Final = {GROUP: GROUP_METADATA_TOPIC, TRANSACTION: TRANSACTION_STATE_TOPIC}
"""The topic whose partitions' leaders coordinate."""

SHARE_GROUPS_NOT_SERVED: Final = "share groups are not served by this version of Highwater"


class _Found(NamedTuple):
    error_code: int
    message: str | None = None
    node_id: int = NO_NODE
    host: str = ""
    port: int = -1


async def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """The leader of each key's partition, with the address of its gateway."""
    keys = request.coordinator_keys if context.api_version >= BATCHES_FROM else [request.key]
    each = dict.fromkeys(keys)
    denials = {key: denial for key in each if (denial := _denial(context, request.key_type, key))}
    refusal: _Found | None = None
    topic: TopicState | None = None
    if len(denials) < len(each):
        name = _TOPICS.get(request.key_type)
        if name is None:
            refusal = _refusal(context, request)
        else:
            topic = await coordinator_topic(context, name)
    return _response(
        context.api_version,
        [(key, denials.get(key) or refusal or _coordinator(context, topic, key)) for key in keys],
    )


def failure(request: FindCoordinatorRequest, version: int, code: int) -> FindCoordinatorResponse:
    """The same code for every key."""
    keys = request.coordinator_keys if version >= BATCHES_FROM else [request.key]
    return _response(version, [(key, _Found(code)) for key in keys])


def _denial(context: RequestContext, key_type: int, key: str) -> _Found | None:
    """The answer if the client may not know the key's coordinator."""
    kind = _KINDS.get(key_type)
    if kind is None:
        return None
    resource_type, code = kind
    if context.allows(AclOperation.DESCRIBE, Resource(resource_type, key)):
        return None
    return _Found(code, code.message)


def _refusal(context: RequestContext, request: FindCoordinatorRequest) -> _Found:
    if request.key_type == SHARE and context.api_version >= SHARE_FROM:
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, SHARE_GROUPS_NOT_SERVED)
    return _Found(ErrorCode.INVALID_REQUEST, f"unknown coordinator key type {request.key_type}")


def _coordinator(context: RequestContext, topic: TopicState | None, key: str) -> _Found:
    if topic is None:
        return _Found(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinators' topic is being created"
        )
    place = coordinator_place(context.peer.instance, key, len(topic.partitions))
    partition = topic.partitions[place]
    image, entrance = context.backend.image, context.peer.entrance
    broker = broker_of(image, partition.leader, entrance)
    if broker is None or broker.fenced:
        why = f"partition {place} of the coordinators' topic has no leader at the moment"
        if partition.leader in nodes_without(image, entrance):
            why = f"broker {partition.leader} has no listener {entrance.listener}"
        return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)
    return _Found(ErrorCode.NONE, None, broker.node_id, broker.host, broker.port)


def _response(version: int, found: list[tuple[str, _Found]]) -> FindCoordinatorResponse:
    if version >= BATCHES_FROM:
        return FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorResponseCoordinator(
                    key, one.node_id, one.host, one.port, one.error_code, one.message
                )
                for key, one in found
            ]
        )
    [(_, one)] = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )
