"""DescribeQuorum v0-2: the controllers, and how far nodes and gateways follow them (KIP-595).

Behaviour
- Clients of another instance than the default one: CLUSTER_AUTHORIZATION_FAILED (see `operates`).
- Partition 0 of `__cluster_metadata` is the only one that may be named, and once. Otherwise every
  partition of the request gets UNKNOWN_TOPIC_OR_PARTITION.
- Voters are the controllers that stand for election; the active one leads and comes first. The
  leader epoch is the controller epoch. High watermark and log end offsets are revisions of the
  image.
- Observers are the nodes and gateways that have a session. Their log end offset is the revision
  that their last heartbeat told, the time of the last fetch is that heartbeat's. What a new active
  controller has not heard yet is -1.
- v1: times of the last fetch, and of when a replica was last seen to have everything (KIP-836).
- v2: ids of directories, all zero; error messages; the voters' addresses (KIP-853).
- Without DESCRIBE on the cluster: CLUSTER_AUTHORIZATION_FAILED.
- If no controller answers: NOT_CONTROLLER.

Deviations
- There is no log of metadata, and nothing to fetch: the metadata store keeps all of it.
- Nodes have their ids. Controllers and gateways have names; the ids in the answer are made from
  these: 1 000 000 and more for controllers, 2 000 000 and more for gateways.
- A controller that does not run is no voter: nobody knows how many there should be.
- Standby controllers have the leader's log end offset, as all read the same store. Their times are
  -1: nothing tells whether they live but their leases.
- The address of a voter, named CONTROLLER, speaks gRPC. A controller without a server has none.
- A controller epoch above 2 147 483 647 is -1.
"""

from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import call_timeout_s
from highwater.gateway.handling.authorization import operates
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseReplicaState,
    DescribeQuorumResponseTopicData,
)
from highwater.model.acl_operations import AclOperation

TOPIC: Final = "__cluster_metadata"
PARTITION: Final = 0
LISTENER: Final = "CONTROLLER"

_UNKNOWN: Final = -1
_INT32_MAX: Final = 2**31 - 1


async def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Asks the controller."""
    if not operates(context, AclOperation.DESCRIBE):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    named = [
        (topic.topic_name, [partition.partition_index for partition in topic.partitions])
        for topic in request.topics
    ]
    if named != [(TOPIC, [PARTITION])]:
        return _unknown(named)
    quorum = await context.backend.controller.describe_quorum(
        pb.DescribeQuorumRequest(), timeout_s=call_timeout_s(context)
    )
    epoch = quorum.controller_epoch
    partition = DescribeQuorumResponsePartitionData(
        partition_index=PARTITION,
        leader_id=quorum.leader_id,
        leader_epoch=epoch if epoch <= _INT32_MAX else _UNKNOWN,
        high_watermark=quorum.revision,
        current_voters=[_replica(voter) for voter in quorum.voters],
        observers=[_replica(observer) for observer in quorum.observers],
    )
    return DescribeQuorumResponse(
        topics=[DescribeQuorumResponseTopicData(TOPIC, [partition])],
        nodes=[
            DescribeQuorumResponseNode(voter.replica_id, _listeners(voter.address))
            for voter in quorum.voters
        ],
    )


def failure(_request: DescribeQuorumRequest, _version: int, code: int) -> DescribeQuorumResponse:
    """The code and its message for the whole request, as in Kafka."""
    return DescribeQuorumResponse(error_code=code, error_message=ErrorCode(code).message)


def _unknown(named: list[tuple[str, list[int]]]) -> DescribeQuorumResponse:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic,
                [DescribeQuorumResponsePartitionData(n, code, code.message) for n in partitions],
            )
            for topic, partitions in named
        ]
    )


def _replica(replica: pb.QuorumReplica) -> DescribeQuorumResponseReplicaState:
    return DescribeQuorumResponseReplicaState(
        replica_id=replica.replica_id,
        log_end_offset=replica.revision,
        last_fetch_timestamp=replica.reported_ms,
        last_caught_up_timestamp=replica.caught_up_ms,
    )


def _listeners(address: str) -> list[DescribeQuorumResponseListener]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return []  # A controller that only its own process calls needs no server.
    return [DescribeQuorumResponseListener(LISTENER, host.strip("[]"), int(port))]
