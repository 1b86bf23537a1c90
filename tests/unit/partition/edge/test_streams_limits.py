"""What one stream may make its node keep, and what the node says that it keeps."""

import asyncio

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append_codec import encode_request as encode_append
from highwater.hop.fetch import FetchSet
from highwater.hop.framing import joined
from highwater.partition.edge import served_stream, streams
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.edge.streams import (
    ASKED_BYTES,
    CALL_BYTES,
    FETCH_BYTES,
    GROUP_BYTES,
    append_handler,
    coordinate_handler,
    fetch_handler,
)
from highwater.rpc.status import StatusCode
from tests.support.fake_calls import FakeServerCall
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import Coordinator, until
from tests.unit.hop.sinks import group_of
from tests.unit.hop.test_fetch_codec import encode_request, work_of
from tests.unit.partition.data_plane.node import EPOCH, Node, ask
from tests.unit.partition.data_plane.roles import NODE, follower_fetched, image_says

ACKS_ALL = -1


class Call(FakeServerCall):
    def memory(self):
        return self._callbacks.memory()


@pytest.fixture
def serve():
    failures = []

    def begin(make_handler, owner):
        call = Call()
        call.serve(make_handler(owner, StreamDrain(), lambda *failure: failures.append(failure)))
        return call

    yield begin
    assert failures == []


def appended(message_id, partitions=(0,)):
    groups = [
        group_of(make_batch(), partition=number, acks=ACKS_ALL, epoch=EPOCH, deadline_ms=60_000)
        for number in partitions
    ]
    return joined(encode_append(message_id, groups, 0))


async def test_a_stream_with_too_many_groups_under_way_is_not_read(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(served_stream, "AWAITED_MAX", 2)
    node = Node(tmp_path)
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    call = serve(append_handler, node.plane)
    for number in range(1, 6):
        call.message(appended(number))
    assert call.reads == 3, "one too many, and no more"
    assert call.memory() == 3 * GROUP_BYTES
    follower_fetched(replica, 2, 3)
    await until(lambda: call.reads == 5)
    follower_fetched(replica, 2, 5)
    await until(lambda: call.memory() == 0)
    call.half_close()
    await until(lambda: call.status is not None)


@pytest.mark.parametrize("rows", [{"groups": 5}, {"batches": 5}])
async def test_a_message_of_too_many_groups_or_batches_ends_the_stream(
    serve, tmp_path, monkeypatch, rows
):
    monkeypatch.setattr("highwater.hop.append_codec.ROWS_MAX", 4)
    node = Node(tmp_path)
    node.add()
    call = serve(append_handler, node.plane)
    if "groups" in rows:
        call.message(appended(1, [0] * 5))
    else:
        call.message(joined(encode_append(1, [group_of(*[make_batch()] * 5)], 0)))
    assert call.status.code is StatusCode.INVALID_ARGUMENT
    assert "more than 4" in call.status.details
    await asyncio.sleep(0)


async def test_what_fetches_keep_is_told(serve, tmp_path):
    node = Node(tmp_path)
    node.add()
    call = serve(fetch_handler, node.plane)
    call.message(encode_request([work_of(n, ask(0)) for n in (1, 2)], [], False))
    assert call.memory() == 2 * (FETCH_BYTES + ASKED_BYTES)
    fetch_set = FetchSet()
    fetch_set.set_id = 7
    for place in range(3):
        fetch_set.update(place, ask(0))
    one = work_of(3)
    one.fetch_set = fetch_set
    call.message(encode_request([one], [], False, stream=call))
    assert call.memory() == 2 * (FETCH_BYTES + ASKED_BYTES) + 2 * FETCH_BYTES + 3 * ASKED_BYTES
    call.lose()
    assert call.memory() == 0


@pytest.mark.parametrize("together", [True, False])
async def test_two_fetches_of_one_number_end_the_stream_and_leave_none_behind(
    serve, tmp_path, together
):
    node = Node(tmp_path)
    replica = node.add()
    call = serve(fetch_handler, node.plane)
    works = [work_of(1, ask(0)), work_of(1, ask(0))]
    for sent in [works] if together else [[work] for work in works]:
        call.message(encode_request(sent, [], False))
    assert call.status.code is StatusCode.INVALID_ARGUMENT
    await asyncio.sleep(0)
    assert node.plane.waiting_fetches == 0
    assert replica.waiters.fetches == {}


async def test_too_many_fetches_are_refused_before_they_are_made(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "WAITING_CALLS_MAX", 2)
    made = []
    monkeypatch.setattr(streams, "works_of", lambda *_: made.append(1))
    call = serve(fetch_handler, Node(tmp_path).plane)
    call.message(encode_request([work_of(n, ask(0)) for n in range(3)], [], False))
    assert call.status.code is StatusCode.INVALID_ARGUMENT
    assert made == []


def coordinate(*call_ids, body=b"body"):
    calls = [pb.CoordinatorCall(call_id=number, body=body) for number in call_ids]
    return pb.CoordinateRequest(calls=calls).SerializeToString()


async def test_what_coordinator_calls_keep_is_told(serve):
    coordinator = Coordinator()
    call = serve(coordinate_handler, coordinator)
    call.message(coordinate(1, 2, body=bytes(5_000)))
    assert call.memory() == 2 * (CALL_BYTES + 5_000)
    coordinator.calls[0].reply(0, b"")
    assert call.memory() == CALL_BYTES + 5_000
    call.lose()
    assert call.memory() == 0


async def test_two_calls_of_one_number_end_the_stream_and_leave_none_behind(serve):
    coordinator = Coordinator()
    call = serve(coordinate_handler, coordinator)
    call.message(coordinate(1))
    call.message(coordinate(1))
    assert call.status.code is StatusCode.INVALID_ARGUMENT
    await asyncio.sleep(0)
    assert coordinator.cancelled == coordinator.calls[:1]
    assert len(coordinator.calls) == 1, "the second one was not submitted"
