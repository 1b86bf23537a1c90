"""The description of the quorum as a message."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.core.quorum import Quorum, Replica


def quorum_to_pb(quorum: Quorum) -> pb.DescribeQuorumResponse:
    """Field by field."""
    return pb.DescribeQuorumResponse(
        leader_id=quorum.leader_id,
        controller_epoch=quorum.controller_epoch,
        revision=quorum.revision,
        voters=map(_replica_to_pb, quorum.voters),
        observers=map(_replica_to_pb, quorum.observers),
    )


def _replica_to_pb(replica: Replica) -> pb.QuorumReplica:
    return pb.QuorumReplica(
        replica_id=replica.replica_id,
        name=replica.name,
        address=replica.address,
        revision=replica.revision,
        reported_ms=replica.reported_ms,
        caught_up_ms=replica.caught_up_ms,
    )
