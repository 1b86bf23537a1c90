"""What of a Produce or Fetch request is denied; asked on the long way only.

The short way asks nobody: a shape is learned from a request whose topic was allowed, so the answer
is the shape's. When ACLs change, all sessions forget their shapes (`Listener.forget_shapes`).
"""

from collections.abc import Mapping
from typing import Final

from highwater.gateway.routing.client import ClientInfo
from highwater.hop.append import Batch, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.fetch import FetchRequest
from highwater.kafka.messages.produce import ProduceRequest
from highwater.kafka.records.batch import ATTRIBUTES_AT, MAGIC, MAGIC_AT, TRANSACTIONAL_BIT
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import (
    Authorizer,
    Resource,
    ResourceType,
    denied_names,
)

_NOTHING: Final[Mapping[str, Failure]] = {}
_TOPIC_DENIED: Final = Failure(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_TRANSACTIONAL_ID_DENIED: Final = Failure(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def produce_denials(
    authorizer: Authorizer, client: ClientInfo, request: ProduceRequest, *, transactional: bool
) -> Mapping[str, Failure]:
    """Why topics are denied, by name (Kafka: `KafkaApis.handleProduceRequest`).

    A topic that the request names by id is asked for by its name; an unknown id has none.

    Topics need WRITE. If there are transactional records (`transactional`), there has to be a
    transactional id, which needs it, too; otherwise all topics are denied.
    """
    if authorizer.allows_all and not (transactional and request.transactional_id is None):
        return _NOTHING
    who = client.requester
    names = [_name(client, topic.name, topic.topic_id) for topic in request.topic_data]
    if transactional:
        name = request.transactional_id
        if name is None or not authorizer.allows(
            who, AclOperation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, name)
        ):
            return dict.fromkeys(names, _TRANSACTIONAL_ID_DENIED)
    asked = filter(None, names)
    denied = denied_names(authorizer, who, AclOperation.WRITE, ResourceType.TOPIC, asked)
    return dict.fromkeys(denied, _TOPIC_DENIED)


def unreadable_topics(
    authorizer: Authorizer, client: ClientInfo, request: FetchRequest
) -> frozenset[str]:
    """The names of topics that the client may not READ."""
    names = (_name(client, topic.topic, topic.topic_id) for topic in request.topics)
    asked = filter(None, names)
    return denied_names(authorizer, client.requester, AclOperation.READ, ResourceType.TOPIC, asked)


def is_of_replica(request: FetchRequest) -> bool:
    """True if the request says that a replica fetches; from version 15 on by a tag (KIP-903)."""
    state = request.replica_state
    return (request.replica_id if state is None else state.replica_id) >= 0


def _name(client: ClientInfo, name: str, topic_id: bytes) -> str:
    """The topic's name; empty for an unknown id."""
    if name:
        return name
    found = client.topics.find(name, topic_id)
    return "" if found is None else found.name


def has_transactional_records(request: ProduceRequest) -> bool:
    """True if the first batch of any partition is transactional (Kafka: `RequestUtils`)."""
    low_byte_at = ATTRIBUTES_AT + 1
    return any(
        isinstance(data.records, Batch)
        and len(data.records) > low_byte_at
        and data.records[MAGIC_AT] == MAGIC
        and data.records[low_byte_at] & TRANSACTIONAL_BIT
        for topic in request.topic_data
        for data in topic.partition_data
    )
