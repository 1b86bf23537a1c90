"""Calls between nodes, and nodes that do not answer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.channels import hop_channels
from highwater.hop.settings import HopSettings, HopTransport
from highwater.hop.transport import make_server, path_of
from highwater.partition.node.node_calls import NodeCalls
from tests.support.controller_images import image_of, node_state


class Other:
    """A node that keeps requests."""

    def __init__(self) -> None:
        self.asked: list[pb.CoordinatorCall] = []

    async def coordinate_one(
        self, request: pb.CoordinatorCall, _call: object
    ) -> pb.CoordinatorReply:
        self.asked.append(request)
        return pb.CoordinatorReply(call_id=request.call_id, body=b"answer")


@pytest.fixture(params=HopTransport)
async def other(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Other, NodeCalls, str]]:
    node = Other()
    failures: list[BaseException] = []

    def failed(_name: str, error: BaseException) -> None:
        failures.append(error)

    server = make_server("127.0.0.1", 0, request.param, failed)
    server.methods.add_unary(
        path_of("CoordinateOne"),
        node.coordinate_one,
        deserialize=pb.CoordinatorCall.FromString,
        serialize=pb.CoordinatorReply.SerializeToString,
    )
    await server.start()
    calls = NodeCalls(hop_channels(HopSettings(transport=request.param), failed))
    calls.image_changed(image_of([replace(node_state(2), address=server.address)]))
    yield node, calls, server.address
    await calls.close()
    await server.stop(drain_s=0)
    assert failures == []


async def ask(calls: NodeCalls, node: int = 2) -> pb.CoordinatorReply | None:
    async with asyncio.timeout(20):
        return await calls.call(
            node,
            "CoordinateOne",
            pb.CoordinatorCall(call_id=3),
            serialize=pb.CoordinatorCall.SerializeToString,
            deserialize=pb.CoordinatorReply.FromString,
            timeout_s=5,
        )


async def test_a_call_and_its_answer(other: tuple[Other, NodeCalls, str]) -> None:
    node, calls, _ = other
    first, second = await ask(calls), await ask(calls)
    assert first == second == pb.CoordinatorReply(call_id=3, body=b"answer")
    assert len(node.asked) == 2


async def test_a_node_that_is_not_there(other: tuple[Other, NodeCalls, str]) -> None:
    _, calls, address = other
    assert await ask(calls, node=9) is None
    calls.image_changed(image_of([replace(node_state(2), address="127.0.0.1:1")]))
    assert await ask(calls) is None
    calls.image_changed(image_of([replace(node_state(2), address=address)]))
    assert await ask(calls) is not None
