import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from highwater.runtime.grpc_channel import open_channel
from highwater.runtime.grpc_server import GrpcServer
from highwater.runtime.health import GrpcHealth, Readiness

STATUS = health_pb2.HealthCheckResponse


def test_ready_when_all_checks_hold():
    readiness = Readiness()
    assert readiness.ready()
    metadata = []
    readiness.add("metadata", lambda: bool(metadata))
    readiness.add("store", lambda: True)
    assert not readiness.ready()
    assert dict(readiness.results()) == {"metadata": False, "store": True}
    metadata.append(1)
    assert readiness.ready()
    with pytest.raises(AssertionError, match="store"):
        readiness.add("store", lambda: True)


async def test_health_service_follows_set_serving():
    health = GrpcHealth(("demo.Demo",))
    server = GrpcServer("127.0.0.1", 0)
    server.register(health.add_to_server)
    await server.start()
    channel = open_channel(server.address)
    try:
        stub = health_pb2_grpc.HealthStub(channel)
        for serving, status in ((True, STATUS.SERVING), (False, STATUS.NOT_SERVING)):
            await health.set_serving(serving=serving)
            for name in ("", "demo.Demo"):
                request = health_pb2.HealthCheckRequest(service=name)
                assert (await stub.Check(request, timeout=5)).status == status
    finally:
        await channel.close()
        await server.stop(drain_s=0)
