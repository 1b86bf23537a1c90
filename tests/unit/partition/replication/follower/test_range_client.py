"""The meaning of another node's answers and of its silence."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.channels import hop_channels
from highwater.hop.settings import HopSettings, HopTransport
from highwater.hop.transport import make_server, path_of
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import TopicId
from highwater.partition.core.repair import Outcome
from highwater.partition.replication.follower.range_client import RangeClient
from tests.support.controller_images import image_of, node_state

TOPIC = TopicId(b"t" * 16)


class Other:
    """A node that keeps requests and answers as the test says."""

    def __init__(self) -> None:
        self.asked: list[pb.ReadRangeRequest] = []
        self.answer = pb.ReadRangeResponse(records=b"batches")

    async def read_range(self, request: pb.ReadRangeRequest, _call: object) -> pb.ReadRangeResponse:
        self.asked.append(request)
        return self.answer


@pytest.fixture(params=HopTransport)
async def other(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Other, RangeClient]]:
    node = Other()
    failures: list[BaseException] = []

    def failed(_name: str, error: BaseException) -> None:
        failures.append(error)

    server = make_server("127.0.0.1", 0, request.param, failed)
    server.methods.add_unary(
        path_of("ReadRange"),
        node.read_range,
        deserialize=pb.ReadRangeRequest.FromString,
        serialize=pb.ReadRangeResponse.SerializeToString,
    )
    await server.start()
    client = RangeClient(hop_channels(HopSettings(transport=request.param), failed))
    client.image_changed(image_of([replace(node_state(2), address=server.address)]))
    yield node, client
    await client.close()
    await server.stop(drain_s=0)
    assert failures == []


async def ask(client: RangeClient, node: int = 2) -> bytes | Outcome:
    async with asyncio.timeout(20):
        return await client.ask(node, TOPIC, 3, 7, 10, 20)


async def test_batches_and_refusals(other: tuple[Other, RangeClient]) -> None:
    node, client = other
    assert await ask(client) == b"batches"
    (request,) = node.asked
    assert (request.topic_id, request.partition, request.leader_epoch) == (TOPIC, 3, 7)
    assert (request.offset, request.end_offset) == (10, 20)
    node.answer = pb.ReadRangeResponse(error_code=ErrorCode.CORRUPT_MESSAGE)
    assert await ask(client) is Outcome.DAMAGED
    node.answer = pb.ReadRangeResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert await ask(client) is Outcome.UNWILLING


async def test_nothing_listens_at_the_address(other: tuple[Other, RangeClient]) -> None:
    _, client = other
    assert await ask(client, node=9) is Outcome.SILENT
    client.image_changed(image_of([replace(node_state(2), address="127.0.0.1:1")]))
    assert await ask(client) is Outcome.SILENT
