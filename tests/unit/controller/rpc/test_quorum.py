"""The quorum from the controller to a caller."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.core.quorum import Quorum, Replica
from highwater.controller.rpc.quorum import quorum_to_pb
from highwater.controller.service import ControllerService
from highwater.metadata.controller_client import ControllerClient
from tests.support.controller import gateway_state, node


def test_every_field() -> None:
    voter = Replica(
        replica_id=1_000_001, name="c", address="h:1", revision=9, reported_ms=5, caught_up_ms=4
    )
    message = quorum_to_pb(
        Quorum(
            leader_id=1_000_001,
            controller_epoch=3,
            revision=9,
            voters=(voter,),
            observers=(Replica(replica_id=2),),
        )
    )
    assert message == pb.DescribeQuorumResponse(
        leader_id=1_000_001,
        controller_epoch=3,
        revision=9,
        voters=[
            pb.QuorumReplica(
                replica_id=1_000_001,
                name="c",
                address="h:1",
                revision=9,
                reported_ms=5,
                caught_up_ms=4,
            )
        ],
        observers=[pb.QuorumReplica(replica_id=2, revision=-1, reported_ms=-1, caught_up_ms=-1)],
    )


async def test_a_caller_learns_who_leads_and_who_follows(
    controller: ControllerService, client: ControllerClient
) -> None:
    first, second = node(client, 1), node(client, 2)
    await first.register()
    await second.register()
    registered = await client.register_gateway(
        pb.RegisterGatewayRequest(gateway=gateway_state("g1"))
    )
    assert registered.error.error_code == 0
    active = controller.active
    assert active is not None
    revision = active.image.revision
    await first.beat(revision - 1)
    told = await client.describe_quorum(pb.DescribeQuorumRequest())
    [voter] = told.voters
    assert (voter.replica_id, voter.name, voter.address) == (
        told.leader_id,
        "c1",
        controller.address,
    )
    assert told.controller_epoch == active.image.controller_epoch
    assert told.revision == voter.revision == active.image.revision
    assert [one.name or one.replica_id for one in told.observers] == [1, 2, "g1"]
    behind, silent, gateway = told.observers
    assert (behind.revision, behind.caught_up_ms) == (revision - 1, -1)
    assert 0 <= voter.reported_ms - behind.reported_ms < 60_000
    for one in (silent, gateway):
        assert (one.revision, one.reported_ms, one.caught_up_ms) == (-1, -1, -1)
