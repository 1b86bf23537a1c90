import asyncio

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.edge import coordinate_one as module
from highwater.partition.edge.coordinate_one import coordinate_one
from tests.unit.partition.coordinator.waiting import until

SENT = pb.CoordinatorCall(
    call_id=4,
    api_key=24,
    api_version=5,
    instance="default",
    client_id="node-2",
    client_host="h",
    coordinator_partition=-1,
    deadline_ms=100,
    body=b"request",
)


class Coordinator:
    def __init__(self):
        self.calls, self.cancelled = [], []

    def submit(self, call):
        self.calls.append(call)

    def cancel(self, call):
        self.cancelled.append(call)


async def test_a_call_is_passed_on_and_its_answer_back():
    coordinator = Coordinator()
    asked = asyncio.ensure_future(coordinate_one(coordinator, SENT))
    await until(lambda: coordinator.calls)
    (call,) = coordinator.calls
    assert (call.api_key, call.api_version, call.instance, call.body) == (
        24,
        5,
        "default",
        b"request",
    )
    assert (call.client_id, call.client_host) == ("node-2", "h")
    assert (call.partition, call.deadline_ms) == (-1, 100)
    call.reply(0, b"answer")
    assert await asked == pb.CoordinatorReply(call_id=4, error_code=0, body=b"answer")


async def test_an_error_has_no_body():
    coordinator = Coordinator()
    asked = asyncio.ensure_future(coordinate_one(coordinator, SENT))
    await until(lambda: coordinator.calls)
    coordinator.calls[0].reply(16, b"")
    assert await asked == pb.CoordinatorReply(call_id=4, error_code=16)


async def test_a_caller_that_goes_away_cancels_the_call():
    coordinator = Coordinator()
    asked = asyncio.ensure_future(coordinate_one(coordinator, SENT))
    await until(lambda: coordinator.calls)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert coordinator.cancelled == coordinator.calls
    coordinator.calls[0].reply(0, b"late")


async def test_a_huge_answer_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "REPLY_BYTES_MAX", 3)
    coordinator = Coordinator()
    asked = asyncio.ensure_future(coordinate_one(coordinator, SENT))
    await until(lambda: coordinator.calls)
    coordinator.calls[0].reply(0, b"1234")
    assert (await asked).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
