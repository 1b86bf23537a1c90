"""AlterPartitionReassignments v0-1: moves partitions to other nodes, or cancels it (KIP-455, KIP-860).

Behaviour
- Clients of another instance than the default one: CLUSTER_AUTHORIZATION_FAILED (see `operates`).
- Without ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED.
- Each partition has its own result. A list of replicas starts a reassignment and replaces the one
  in progress; null cancels it and restores the former replicas: NO_REASSIGNMENT_IN_PROGRESS (85) if
  there is none, INVALID_REPLICA_ASSIGNMENT (39) if none of the former replicas is in sync.
- An empty list, a duplicate replica, and a broker that is not registered or is being decommissioned
  are INVALID_REPLICA_ASSIGNMENT (39). Unknown partitions are UNKNOWN_TOPIC_OR_PARTITION (3).
- The answer comes when the reassignment has begun; ListPartitionReassignments shows when it is
  complete.

Version notes
- v1: a change of the replication factor can be refused (INVALID_REPLICATION_FACTOR, 38).

Deviations
- A partition that is named twice has one result, that of the last occurrence.
- A reassignment that was adding the present leader is cancelled when that leader has handed over;
  ListPartitionReassignments shows it until then. Kafka elects another leader at once.
"""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import await_visible, call_timeout_s, propagation_ms
from highwater.gateway.handling.authorization import operates
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponseReassignablePartitionResponse,
    AlterPartitionReassignmentsResponseReassignableTopicResponse,
)
from highwater.model.acl_operations import AclOperation

_Partition = AlterPartitionReassignmentsResponseReassignablePartitionResponse
_Results = dict[str, dict[int, _Partition]]
"""By topic and partition, in the order of the request."""


async def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Resolves the topics and asks the controller."""
    if not operates(context, AclOperation.ALTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results: _Results = {}
    wanted: list[pb.PartitionReassignment] = []
    places: list[tuple[str, int]] = []
    for asked in request.topics:
        topic = context.backend.image.topic(asked.name, context.peer.instance)
        known = 0 if topic is None else len(topic.partitions)
        for one in asked.partitions:
            number = one.partition_index
            if topic is None or not 0 <= number < known:
                _add(results, asked.name, number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            _add(results, asked.name, number, ErrorCode.NONE)
            places.append((asked.name, number))
            wanted.append(_reassignment(topic.topic_id, one))
    if wanted:
        response = await context.backend.controller.alter_partition_reassignments(
            pb.AlterPartitionReassignmentsRequest(
                instance=context.peer.instance,
                reassignments=wanted,
                allow_replication_factor_change=request.allow_replication_factor_change,
                timeout_ms=propagation_ms(request.timeout_ms),
            ),
            timeout_s=call_timeout_s(context),
        )
        await await_visible(context, response.revision)
        for (name, number), error in zip(places, response.errors, strict=True):
            _add(results, name, number, error.error_code, error.message)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=_packed(results),
    )


def failure(
    request: AlterPartitionReassignmentsRequest, _version: int, code: int
) -> AlterPartitionReassignmentsResponse:
    """The code at the top and for every partition, which is where some clients look."""
    results: _Results = {}
    for asked in request.topics:
        for one in asked.partitions:
            _add(results, asked.name, one.partition_index, code)
    return AlterPartitionReassignmentsResponse(
        error_code=code, error_message=ErrorCode(code).message, responses=_packed(results)
    )


def _reassignment(
    topic_id: bytes, one: AlterPartitionReassignmentsRequestReassignablePartition
) -> pb.PartitionReassignment:
    return pb.PartitionReassignment(
        topic_id=topic_id,
        partition=one.partition_index,
        replicas=one.replicas or (),
        cancel=one.replicas is None,
    )


def _add(results: _Results, topic: str, partition: int, code: int, message: str = "") -> None:
    why = None if not code else message or ErrorCode(code).message
    results.setdefault(topic, {})[partition] = _Partition(partition, code, why)


def _packed(
    results: _Results,
) -> list[AlterPartitionReassignmentsResponseReassignableTopicResponse]:
    return [
        AlterPartitionReassignmentsResponseReassignableTopicResponse(
            topic, list(partitions.values())
        )
        for topic, partitions in results.items()
    ]
