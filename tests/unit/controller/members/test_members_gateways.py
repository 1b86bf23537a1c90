"""Gateways: registration, blocks of ports, and sessions."""

import asyncio
from typing import Any

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.service import ControllerService
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch, Watcher
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NodeId
from tests.support.controller import FakeNode, gateway_state, image_when, node


async def test_gateways_are_assigned_and_forgotten(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    await node(client, 1).join()
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state("g1")))
    stream = ClusterWatch(endpoints, watcher=Watcher(gateway_id="g1"))
    stream.start()
    image = await image_when(watch, lambda i: i.node_gateways)
    assert dict(image.node_gateways) == {1: "g1"}
    await stream.wait_for_revision(image.revision, 5.0)
    await stream.stop()
    image = await image_when(watch, lambda i: not i.gateways, timeout_s=1.5)
    assert not image.node_gateways
    beat = await client.heartbeat(pb.HeartbeatRequest(node_id=-1, gateway_id="g1"))
    assert beat.error.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


class Warnings:
    """A log that keeps warnings with a reason."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def warning(self, event: str, *, reason: str = "", **values: object) -> None:
        if reason:
            self.told.append((event, reason))

    def info(self, event: str, **values: object) -> None:
        pass


async def test_blocks_of_gateways_that_overlap_are_told_and_not_refused(
    controller: ControllerService,
    client: ControllerClient,
    watch: ClusterWatch,
    endpoints: ControllerEndpoints,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Warnings()
    assert controller.active is not None
    monkeypatch.setattr(controller.active.members, "_log", log)
    for name, port in (("a", 9092), ("b", 9094)):
        state = gateway_state(name, port=port)
        answer = await client.register_gateway(pb.RegisterGatewayRequest(gateway=state))
        assert answer.error.error_code == 0
    await node(client, 1).register()
    assert log.told == [], "no node's port is in both"
    for number in (2, 3):
        await FakeNode(client, f"127.0.0.1:{9400 + number}", f"i{number}").register()
    ((event, reason),) = log.told
    assert event == "gateway_ports_overlap"
    assert "gateway a (127.0.0.1:9092)" in reason
    assert "gateway b" in reason
    # It goes, and comes back: those who look at the log by then have to find it there.
    stream = ClusterWatch(endpoints, watcher=Watcher(gateway_id="a"))
    stream.start()
    await stream.wait_for_revision(1, 5.0)
    await stream.stop()
    await image_when(watch, lambda i: "a" not in i.gateways, timeout_s=1.5)
    state = gateway_state("a", port=9092)
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=state))
    assert log.told == [(event, reason)] * 2
    # The same if it stops in order, and comes back before its session has ended.
    await client.heartbeat(pb.HeartbeatRequest(node_id=-1, gateway_id="a", wants_shutdown=True))
    await image_when(watch, lambda i: "a" not in i.gateways)
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=state))
    assert log.told == [(event, reason)] * 3


async def test_node_0_and_a_block_of_ports_refuse_each_other(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    """Its port would be the bootstrap port."""
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=gateway_state("block")))
    refused = await node(client, 0).register()
    assert refused.error.error_code == ErrorCode.INVALID_REQUEST
    assert "gateway block" in refused.error.message
    image = await image_when(watch, lambda i: not i.gateways, timeout_s=5.0)
    assert not image.nodes
    single = gateway_state("single")
    single.single_port = True
    for state in (single, single):
        answer = await client.register_gateway(pb.RegisterGatewayRequest(gateway=state))
        assert answer.error.error_code == 0
    zero = await node(client, 0).join()
    assert (zero.node_id, (await zero.beat()).fenced) == (0, False)
    answer = await client.register_gateway(
        pb.RegisterGatewayRequest(gateway=gateway_state("block"))
    )
    assert answer.error.error_code == ErrorCode.INVALID_REQUEST
    image = await image_when(watch, lambda i: 0 in i.nodes)
    assert "block" not in image.gateways


def of_node(number: int) -> Any:
    """The gateway of a node's process."""
    state = gateway_state(f"of {number}", host=f"host-{number}")
    state.node_id = number
    return state


async def test_a_node_is_fenced_until_the_gateway_of_its_process_is_there(
    client: ControllerClient,
) -> None:
    one = node(client, 1)
    await one.register()
    for state in (gateway_state("other"), of_node(2)):
        await client.register_gateway(pb.RegisterGatewayRequest(gateway=state))
    assert (await one.beat(waits_for_gateway=True)).fenced
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=of_node(1)))
    assert not (await one.beat(waits_for_gateway=True)).fenced


async def test_a_node_that_has_waited_long_enough_is_unfenced(client: ControllerClient) -> None:
    one = node(client, 1)
    await one.register()
    assert (await one.beat(waits_for_gateway=True)).fenced
    assert not (await one.beat()).fenced


async def test_a_gateway_goes_with_the_node_of_its_process_and_not_before(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    """In between clients would get another gateway's address for the node."""
    one = node(client, 1)
    await one.register()
    for state in (of_node(1), of_node(2)):
        await client.register_gateway(pb.RegisterGatewayRequest(gateway=state))
    assert not (await one.beat(waits_for_gateway=True)).fenced
    images: list[ClusterImage] = []
    watch.subscribe(lambda image, _delta: images.append(image))
    stream = ClusterWatch(endpoints, watcher=Watcher(gateway_id="of 1"))
    stream.start()
    await stream.wait_for_revision(1, 5.0)
    await stream.stop()
    for _ in range(5):  # Longer than the grace of a gateway's stream.
        await asyncio.sleep(0.1)
        assert not (await one.beat(waits_for_gateway=True)).fenced
    await image_when(watch, lambda i: "of 1" not in i.gateways)
    of_live = {i.node_gateways[NodeId(1)] for i in images if not i.nodes[NodeId(1)].fenced}
    assert of_live == {"of 1"}
    assert (await one.beat(waits_for_gateway=True)).fenced, "it waits for it again"


async def test_a_gateway_that_its_node_does_not_have_any_more_goes(
    client: ControllerClient, watch: ClusterWatch, endpoints: ControllerEndpoints
) -> None:
    """The process has come back without one, or under another name."""
    for number, waits in ((1, False), (2, True)):
        one = node(client, number)
        await one.register()
        await client.register_gateway(pb.RegisterGatewayRequest(gateway=of_node(number)))
        assert not (await one.beat(waits_for_gateway=waits)).fenced
    renamed = of_node(2)
    renamed.gateway_id = "renamed"
    await client.register_gateway(pb.RegisterGatewayRequest(gateway=renamed))
    for number in (1, 2):
        stream = ClusterWatch(endpoints, watcher=Watcher(gateway_id=f"of {number}"))
        stream.start()
        await stream.wait_for_revision(1, 5.0)
        await stream.stop()
    image = await image_when(watch, lambda i: len(i.gateways) == 1, timeout_s=1.5)
    assert not image.nodes[NodeId(1)].fenced
    assert set(image.gateways) == {"renamed"}
