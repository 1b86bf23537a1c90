"""Gateways that stop say so before they drain."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.service import ControllerService
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.watch import ClusterWatch
from highwater.model.ids import NodeId
from tests.support.controller import gateway_state, image_when, node


def gateway_beat(name: str, revision: int = 1 << 40) -> pb.HeartbeatRequest:
    return pb.HeartbeatRequest(
        node_id=-1, gateway_id=name, applied_revision=revision, wants_shutdown=True
    )


async def test_clients_of_a_gateway_that_stops_get_another_one_at_once(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    await node(client, 1).join()
    for name in ("g1", "g2"):
        await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state(name)))
        await client.heartbeat(
            pb.HeartbeatRequest(node_id=-1, gateway_id=name, applied_revision=1 << 40)
        )
    leaving = (await image_when(watch, lambda i: len(i.gateways) == 2)).node_gateways[NodeId(1)]
    (other,) = {"g1", "g2"} - {leaving}
    answer = await client.heartbeat(gateway_beat(leaving))
    assert answer.may_shut_down
    assert not answer.error.error_code, "its session goes on while it drains"
    image = await image_when(watch, lambda i: leaving not in i.gateways)
    assert dict(image.node_gateways) == {1: other}
    assert (await client.heartbeat(gateway_beat(leaving))).may_shut_down, "once more is harmless"


async def test_a_gateway_stops_only_when_the_others_know(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    await node(client, 1).join()
    for name in ("g1", "g2"):
        await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state(name)))
    await client.heartbeat(pb.HeartbeatRequest(node_id=-1, gateway_id="g2", applied_revision=1))
    assert not (await client.heartbeat(gateway_beat("g1"))).may_shut_down
    assert "g1" not in (await image_when(watch, lambda i: len(i.gateways) == 1)).gateways
    await client.heartbeat(
        pb.HeartbeatRequest(node_id=-1, gateway_id="g2", applied_revision=1 << 40)
    )
    assert (await client.heartbeat(gateway_beat("g1"))).may_shut_down


async def test_the_only_gateway_stays_in_the_image_until_its_session_ends(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    await node(client, 1).join()
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state("g1")))
    assert (await client.heartbeat(gateway_beat("g1"))).may_shut_down
    assert "g1" in (await image_when(watch, lambda i: bool(i.gateways))).gateways


async def test_nobody_waits_for_a_gateway_that_has_left_and_drains(
    client: ControllerClient, watch: ClusterWatch, controller: ControllerService
) -> None:
    """It sends no heartbeats any more, while its session may last for seconds."""
    one = await node(client, 1).join()
    for name in ("g1", "g2"):
        await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state(name)))
    await client.heartbeat(
        pb.HeartbeatRequest(node_id=-1, gateway_id="g2", applied_revision=1 << 40)
    )
    revision = (await image_when(watch, lambda i: len(i.gateways) == 2)).revision
    answer = await client.heartbeat(gateway_beat("g1", revision))
    assert not answer.may_shut_down, "it names itself to clients yet"
    left = await image_when(watch, lambda i: "g1" not in i.gateways)
    await one.beat()
    assert (await client.heartbeat(gateway_beat("g1", left.revision))).may_shut_down
    active = await controller.wait_active(10)
    assert await active.members.wait_applied(left.revision + 1, 500)
