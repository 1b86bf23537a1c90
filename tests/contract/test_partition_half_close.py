"""A stock client closes its side right after its requests: it gets every answer, and then OK."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.settings import HopTransport
from highwater.kafka.messages.list_groups import ListGroupsRequest, encode_request
from tests.contract import partition_messages as wire
from tests.contract.test_partition_service import (
    LARGE,
    LIST_GROUPS,
    LIST_GROUPS_VERSION,
    append,
    scene,
)
from tests.support.log_batches import make_batch
from tests.support.rpc_demo import run_on_uvloop


@pytest.fixture(params=HopTransport)
async def node(request, tmp_path):
    async with scene(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def stub(node):
    return node["stub"]


@pytest.fixture
def orders(node):
    return node["orders"]


@pytest.fixture
def copied(node):
    return node["copied"]


@pytest.fixture
def follower(node):
    return node["follower"]


@pytest.fixture
def stop(node):
    return node["stop"]


async def closed(call, *requests):
    """Sends the requests and closes our side."""
    for request in requests:
        await call.write(request)
    await call.done_writing()


async def answers(call):
    """All that comes until the end, which is OK."""
    found = []
    while (response := await call.read()) is not grpc.aio.EOF:
        found.append(response)
    assert await call.code() is grpc.StatusCode.OK, await call.details()
    return found


async def hears_nothing_yet(call):
    """A reading that goes on, after a while in which neither an answer nor the end has come."""
    reading = asyncio.ensure_future(answers(call))
    await asyncio.sleep(0.1)
    assert not reading.done()
    return reading


def replicate(partition, follower, request_id, offset, **options):
    return wire.replicate_request(
        partition.topic_id,
        request_id=request_id,
        node=(follower.node_id, follower.epoch),
        partition=partition.partition,
        epoch=partition.epoch,
        offset=offset,
        **options,
    )


async def test_append(stub, orders):
    call = stub.Append()
    await closed(call, *(orders.append(make_batch(value=LARGE), message_id=n) for n in (1, 2, 3)))
    results = [result for response in await answers(call) for result in response.results]
    assert [(r.message_id, list(r.base_offsets)) for r in results] == [(1, [0]), (2, [1]), (3, [2])]
    assert await answers_of_nothing(stub.Append()) == []


async def answers_of_nothing(call):
    await call.done_writing()
    return await answers(call)


async def test_append_that_waits_for_a_follower(stub, copied, follower):
    call = stub.Append()
    await closed(call, copied.append(make_batch(), acks=-1))
    reading = await hears_nothing_yet(call)
    following = stub.Replicate()
    await following.write(replicate(copied, follower, 1, 0))
    await following.read()
    await following.write(replicate(copied, follower, 2, 1))  # It has the record.
    results = [result for response in await reading for result in response.results]
    assert [list(result.base_offsets) for result in results] == [[0]]
    following.cancel()


async def test_fetch(stub, orders):
    await append(stub, orders, *(make_batch(value=LARGE) for _ in range(4)))
    call = stub.Fetch()
    await closed(call, orders.fetch(0), orders.fetch(4, call_id=2, max_wait_ms=60_000))
    reading = await hears_nothing_yet(call)
    await append(stub, orders, make_batch(value=b"news"))
    responses = await reading
    ends = [
        row for response in responses for row in wire.FETCH_ANSWER.iter_unpack(response.answers)
    ]
    assert [row[0] for row in ends if row[4]] == [1, 2]
    assert sum(row[3] for row in ends) > 4 * len(LARGE)


async def test_a_fetch_that_waits_in_vain(stub, orders):
    call = stub.Fetch()
    await closed(call, orders.fetch(0, max_wait_ms=200))
    (row,) = [
        row
        for response in await answers(call)
        for row in wire.FETCH_ANSWER.iter_unpack(response.answers)
    ]
    assert (row[0], row[3]) == (1, 0)


async def test_the_deadline_of_the_stream_ends_a_wait(stub, orders):
    call = stub.Fetch(timeout=0.5)
    await closed(call, orders.fetch(0, max_wait_ms=60_000))
    assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_coordinate(stub):
    every = {"instance": "default", "client_id": "c", "client_host": "/h", "deadline_ms": 5_000}
    body = encode_request(ListGroupsRequest(), LIST_GROUPS_VERSION)
    calls = [
        pb.CoordinatorCall(
            call_id=n,
            api_key=LIST_GROUPS,
            api_version=LIST_GROUPS_VERSION,
            coordinator_partition=-1,
            body=body,
            **every,
        )
        for n in (7, 8)
    ]
    call = stub.Coordinate()
    await closed(call, *(pb.CoordinateRequest(calls=[one]) for one in calls))
    replies = [reply for response in await answers(call) for reply in response.replies]
    assert sorted((reply.call_id, reply.error_code) for reply in replies) == [(7, 0), (8, 0)]


async def test_replicate(stub, copied, follower):
    call = stub.Replicate()
    await closed(call, replicate(copied, follower, 1, 0))
    await append(stub, copied, make_batch())
    (response,) = await answers(call)
    assert response.request_id == 1


async def test_a_node_that_stops_does_not_wait_for_long(stub, orders, stop):
    call = stub.Fetch()
    await closed(call, orders.fetch(0, max_wait_ms=60_000))
    reading = await hears_nothing_yet(call)
    async with asyncio.timeout(10):
        await stop()
        await reading


@pytest.mark.parametrize("transport", HopTransport)
@pytest.mark.parametrize("check", [test_append, test_fetch, test_coordinate])
def test_on_uvloop(check, transport, tmp_path):
    run_on_uvloop(check, lambda: scene(tmp_path, transport))
