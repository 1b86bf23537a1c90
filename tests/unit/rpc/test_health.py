import asyncio

import pytest
from grpc_health.v1 import health_pb2

from highwater.rpc.addresses import TcpAddress
from highwater.rpc.channel import Channel
from highwater.rpc.errors import RpcError
from highwater.rpc.health import SERVICE, RpcHealth
from highwater.rpc.server import RpcServer
from highwater.rpc.status import StatusCode
from tests.support.rpc_demo import eventually

Response = health_pb2.HealthCheckResponse


@pytest.fixture
async def health():
    return RpcHealth(("a.B",))


@pytest.fixture
async def channel(health):
    server = RpcServer(TcpAddress("127.0.0.1", 0))
    health.add_to(server.methods)
    await server.start()
    made = Channel(server.address)
    yield made
    await made.close()
    await server.stop(drain_s=0)


async def check(channel, service):
    answer = await channel.unary(
        f"{SERVICE}/Check",
        health_pb2.HealthCheckRequest(service=service),
        serialize=health_pb2.HealthCheckRequest.SerializeToString,
        deserialize=Response.FromString,
        timeout_s=5,
    )
    return answer.status


class Watching:
    def __init__(self, channel, service):
        self.statuses, self.ends = [], []
        self.call = channel.stream(
            f"{SERVICE}/Watch",
            on_message=lambda m: self.statuses.append(Response.FromString(m).status),
            on_end=self.ends.append,
        )
        self.call.send(health_pb2.HealthCheckRequest(service=service).SerializeToString())


async def test_names_are_unknown_until_the_first_report(health, channel):
    with pytest.raises(RpcError) as caught:
        await check(channel, "")
    assert caught.value.code is StatusCode.NOT_FOUND
    await health.set_serving(serving=True)
    assert await check(channel, "") == Response.SERVING
    assert await check(channel, "a.B") == Response.SERVING
    await health.set_serving(serving=False)
    assert await check(channel, "a.B") == Response.NOT_SERVING


async def test_watchers_hear_of_changes_only(health, channel):
    await health.set_serving(serving=True)
    known, unknown = Watching(channel, "a.B"), Watching(channel, "other")
    await eventually(lambda: known.statuses and unknown.statuses)
    assert unknown.statuses == [Response.SERVICE_UNKNOWN]
    await health.set_serving(serving=True)
    await health.set_serving(serving=False)
    await eventually(lambda: len(known.statuses) == 2)
    assert known.statuses == [Response.SERVING, Response.NOT_SERVING]
    known.call.cancel()
    unknown.call.cancel()
    await eventually(lambda: not health._watchers)


async def test_too_many_watchers_are_refused(health, channel, monkeypatch):
    monkeypatch.setattr("highwater.rpc.health.WATCHERS_MAX", 1)
    first, second = Watching(channel, ""), Watching(channel, "")
    await eventually(lambda: second.ends)
    assert second.ends[0].code is StatusCode.RESOURCE_EXHAUSTED
    assert first.ends == []


async def test_a_malformed_request(health, channel):
    ends = []
    call = channel.stream(f"{SERVICE}/Watch", on_message=lambda _m: None, on_end=ends.append)
    call.send(b"\xff\xff")
    await eventually(lambda: ends)
    assert ends[0].code is StatusCode.INTERNAL
    await asyncio.sleep(0)
