"""A node's listening side: its address, health for stock clients, and its end."""

import asyncio
import socket
import stat

import grpc
import grpc.aio
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from highwater.hop.settings import HopSettings, HopTransport
from highwater.hop.transport import SERVICE, open_channel, path_of
from highwater.hop.unix_socket import SOCKET_FILE
from highwater.partition.config import PartitionConfig
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.edge.node_server import NodeServer
from highwater.partition.node.log_dirs import LogDirRequests
from highwater.partition.node.loggers import LoggerQueries
from highwater.rpc.inner import Inner
from highwater.rpc.status import StatusCode
from highwater.runtime.inner_settings import InnerSettings
from highwater.runtime.logging import silent_logger
from tests.support.still_replicas import StillReplicas
from tests.unit.gateway.clients.partition_node import Coordinator, until
from tests.unit.partition.data_plane.node import Node

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture(params=HopTransport)
def transport(request):
    return request.param


@pytest.fixture
def failures():
    made = []
    yield made
    assert made == []


@pytest.fixture
def make(tmp_path, transport, failures):
    def one(host="127.0.0.1", inner=None, **hop):
        node = Node(tmp_path)
        node.add()
        config = PartitionConfig(
            host=host, port=0, log_dirs=(tmp_path,), hop=HopSettings(transport=transport, **hop)
        )
        server = NodeServer(
            config,
            lambda path, error: failures.append((path, error)),
            structlog.get_logger(),
            inner=inner,
        )
        server.add_methods(
            plane=node.plane,
            queries=OffsetQueries(node.plane, node._log_failed),
            log_dirs=LogDirRequests(
                [tmp_path],
                replicas=lambda _: node.plane.replicas.values(),
                is_online=lambda _: True,
                find=lambda _: None,
                prefer=lambda *_: None,
                moves=StillReplicas(),
            ),
            loggers=LoggerQueries(silent_logger()),
            coordinator=Coordinator(),
        )
        return server

    return one


async def test_others_reach_it_by_the_hosts_name_if_it_listens_everywhere(make):
    near, everywhere = make(), make("0.0.0.0")
    for server in (near, everywhere):
        await server.start()
    assert near.reachable_address == near.address
    assert near.address.startswith("127.0.0.1:")
    assert everywhere.reachable_address == everywhere.address.replace(
        "0.0.0.0", socket.gethostname()
    )
    for server in (near, everywhere):
        await server.stop(drain_s=0)


async def test_health_and_the_end_of_streams(make, transport, failures):
    server = make()
    await server.start()
    await server.set_serving(serving=True)
    channel = open_channel(
        server.address, transport, lambda name, error: failures.append((name, error))
    )
    ends, opened = [], []
    for _ in range(2):
        channel.stream(
            path_of("Fetch"),
            on_message=lambda _message: None,
            on_end=ends.append,
            on_open=lambda: opened.append(1),
        )
    await until(lambda: len(opened) == 2 and len(server._streams._first) == 2)
    async with asyncio.timeout(10), grpc.aio.insecure_channel(server.address) as stock:
        stub = health_pb2_grpc.HealthStub(stock)
        request = health_pb2.HealthCheckRequest(service=SERVICE)
        assert (await stub.Check(request, timeout=5)).status == SERVING
        await server.set_serving(serving=False)
        assert (await stub.Check(request, timeout=5)).status == NOT_SERVING
        told = server.statistics()
        assert (told is None) == (transport is HopTransport.GRPCIO)
        assert await server.drain(2)
    await until(lambda: len(ends) == 2)
    assert [status.code for status in ends] == [StatusCode.OK] * 2
    channel.stream(path_of("Fetch"), on_message=lambda _message: None, on_end=ends.append)
    await until(lambda: len(ends) == 3)
    assert (ends[2].code, ends[2].details) == (StatusCode.UNAVAILABLE, "the node stops")
    await channel.close()
    await server.stop(drain_s=0)


def read_listening(logs):
    return [entry["unix_socket"] for entry in logs if entry["event"] == "listening"]


async def test_a_unix_socket_beside_the_port(make, transport, tmp_path):
    path = tmp_path / SOCKET_FILE
    path.write_text("left behind")
    server = make()
    with structlog.testing.capture_logs() as logs:
        await server.start()
    if transport is HopTransport.GRPCIO:
        assert read_listening(logs) == [""]
        await server.stop(drain_s=0)
        return
    assert read_listening(logs) == [str(path)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with grpc.aio.insecure_channel(f"unix:{path}") as stock:
        stub = health_pb2_grpc.HealthStub(stock)
        await server.set_serving(serving=True)
        request = health_pb2.HealthCheckRequest(service=SERVICE)
        assert (await stub.Check(request, timeout=5)).status == SERVING
        assert server.statistics().unix_connections == 1
    await server.stop(drain_s=0)
    assert not path.exists()


async def test_without_unix_sockets(make, tmp_path):
    server = make(unix_sockets=False)
    with structlog.testing.capture_logs() as logs:
        await server.start()
    assert read_listening(logs) == [""]
    assert not (tmp_path / SOCKET_FILE).exists()
    await server.stop(drain_s=0)


async def test_a_node_without_a_place_for_its_socket_serves_its_port(make, tmp_path):
    (tmp_path / SOCKET_FILE).mkdir()
    server = make()
    with structlog.testing.capture_logs() as logs:
        await server.start()
    assert read_listening(logs) == [""]
    warned = [entry for entry in logs if entry["event"] == "no_unix_socket"]
    grpcio = server.statistics() is None
    assert len(warned) == (0 if grpcio else 1)
    assert server.address.startswith("127.0.0.1:")
    await server.stop(drain_s=0)


@pytest.mark.parametrize(("mode", "served"), [(0o755, True), (0o777, False)])
async def test_with_a_secret_the_socket_needs_a_directory_that_only_this_user_changes(
    make, transport, tmp_path, mode, served
):
    if transport is HopTransport.GRPCIO:
        pytest.skip("grpcio has no unix socket")
    secret = tmp_path / "secret"
    secret.write_text("s" * 20)
    tmp_path.chmod(mode)
    server = make(inner=Inner(InnerSettings(secret_file=secret)))
    with structlog.testing.capture_logs() as logs:
        await server.start()
    assert read_listening(logs) == [str(tmp_path / SOCKET_FILE) if served else ""]
    assert (tmp_path / SOCKET_FILE).exists() is served
    async with grpc.aio.insecure_channel(server.address) as stock:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health_pb2_grpc.HealthStub(stock).Check(
                health_pb2.HealthCheckRequest(service=SERVICE), timeout=5
            )
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    await server.stop(drain_s=0)
