"""ListPartitionReassignments v0: the partitions that are being reassigned (KIP-455).

Behaviour
- Without DESCRIBE on the cluster: CLUSTER_AUTHORIZATION_FAILED.
- Null topics mean all. As in Kafka, named partitions that neither gain nor lose replicas are left
  out.
"""

from collections.abc import Iterable

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponseOngoingPartitionReassignment,
    ListPartitionReassignmentsResponseOngoingTopicReassignment,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.cluster import PartitionState, TopicState


async def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answers from the newest image."""
    if not context.allows(AclOperation.DESCRIBE, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    image = context.backend.image
    instance = context.peer.instance
    asked: Iterable[tuple[TopicState, Iterable[PartitionState]]]
    if request.topics is None:
        topics = (topic for topic in image.topics.values() if topic.instance == instance)
        asked = ((topic, topic.partitions) for topic in topics)
    else:
        named = ((image.topic(one.name, instance), one.partition_indexes) for one in request.topics)
        asked = (
            (topic, [p for p in topic.partitions if p.partition in indexes])
            for topic, indexes in named
            if topic is not None
        )
    found = ((topic, [p for p in some if _moves(p)]) for topic, some in asked)
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            ListPartitionReassignmentsResponseOngoingTopicReassignment(
                topic.name, [_reassignment(partition) for partition in partitions]
            )
            for topic, partitions in found
            if partitions
        ],
    )


def failure(
    _request: ListPartitionReassignmentsRequest, _version: int, code: int
) -> ListPartitionReassignmentsResponse:
    """The code at the top."""
    return ListPartitionReassignmentsResponse(
        error_code=code, error_message=ErrorCode(code).message
    )


def _moves(partition: PartitionState) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _reassignment(
    partition: PartitionState,
) -> ListPartitionReassignmentsResponseOngoingPartitionReassignment:
    return ListPartitionReassignmentsResponseOngoingPartitionReassignment(
        partition.partition,
        partition.replicas,
        partition.adding_replicas,
        partition.removing_replicas,
    )
