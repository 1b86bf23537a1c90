"""ElectLeaders v0-2: elects the preferred replicas, or any live replica (KIP-460).

Behaviour
- Without ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED.
- The controller elects; any broker takes the request. Each partition has a result of its own:
  ELECTION_NOT_NEEDED (84), PREFERRED_LEADER_NOT_AVAILABLE (80), ELIGIBLE_LEADERS_NOT_AVAILABLE (83).
- Null topics mean all partitions; the answer then leaves out those that need no election.
- An unclean election (type 1) elects a leader where there is none. It may lose records, and ignores
  unclean.leader.election.enable, since the administrator has asked for it.
- The answer comes when this gateway's image has the new leaders, or after the propagation time.

Version notes
- v0: preferred only. v1: election type, top-level error code. v2: flexible.
"""

from collections.abc import Mapping
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import await_visible, call_timeout_s, propagation_ms
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartitionResult,
    ElectLeadersResponseReplicaElectionResult,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.ids import TopicId

_TYPES: Final[Mapping[int, pb.ElectionType]] = {
    0: pb.ELECTION_TYPE_PREFERRED,
    1: pb.ELECTION_TYPE_UNCLEAN,
}

_Results = dict[str, dict[int, ElectLeadersResponsePartitionResult]]
"""By topic and partition, in the order of the answer."""


async def handle(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Resolves the topics and asks the controller."""
    if not context.allows(AclOperation.ALTER, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    kind = _TYPES.get(request.election_type)
    if kind is None:
        return failure(request, context.api_version, ErrorCode.INVALID_REQUEST)
    results: _Results = {}
    names: dict[TopicId, str] = {}
    wanted: list[pb.TopicPartitions] = []
    for asked in request.topic_partitions or ():
        topic = context.backend.image.topic(asked.topic, context.peer.instance)
        known = 0 if topic is None else len(topic.partitions)
        for number in asked.partitions:
            _add(results, asked.topic, number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        there = [number for number in dict.fromkeys(asked.partitions) if 0 <= number < known]
        if topic is not None and there:
            names[topic.topic_id] = asked.topic
            wanted.append(pb.TopicPartitions(topic_id=topic.topic_id, partitions=there))
    if wanted or request.topic_partitions is None:
        await _elect(context, request, kind, wanted, names, results)
    return ElectLeadersResponse(replica_election_results=_packed(results))


def failure(request: ElectLeadersRequest, _version: int, code: int) -> ElectLeadersResponse:
    """The code at the top and for every named partition, since v0 has only the latter."""
    results: _Results = {}
    for asked in request.topic_partitions or ():
        for number in asked.partitions:
            _add(results, asked.topic, number, code)
    return ElectLeadersResponse(error_code=code, replica_election_results=_packed(results))


async def _elect(
    context: RequestContext,
    request: ElectLeadersRequest,
    kind: pb.ElectionType,
    wanted: list[pb.TopicPartitions],
    names: dict[TopicId, str],
    results: _Results,
) -> None:
    response = await context.backend.controller.elect_leaders(
        pb.ElectLeadersRequest(
            instance=context.peer.instance,
            type=kind,
            all_partitions=request.topic_partitions is None,
            topics=wanted,
            timeout_ms=propagation_ms(request.timeout_ms),
            hand_over_ms=max(request.timeout_ms, 0),
        ),
        timeout_s=call_timeout_s(context),
    )
    await await_visible(context, response.revision)
    topics = context.backend.image.topics
    for result in response.results:
        topic_id = TopicId(result.topic_id)
        name = names.get(topic_id)
        if name is None:
            if topic_id not in topics:
                continue  # The topic has just been deleted, or is not in this image yet.
            name = topics[topic_id].name
        _add(results, name, result.partition, result.error.error_code, result.error.message)


def _add(results: _Results, topic: str, partition: int, code: int, message: str = "") -> None:
    why = None if not code else message or ErrorCode(code).message
    result = ElectLeadersResponsePartitionResult(partition, code, why)
    results.setdefault(topic, {})[partition] = result


def _packed(results: _Results) -> list[ElectLeadersResponseReplicaElectionResult]:
    return [
        ElectLeadersResponseReplicaElectionResult(topic, list(partitions.values()))
        for topic, partitions in results.items()
    ]
