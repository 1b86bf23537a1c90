"""WatchCluster."""

import asyncio
from contextlib import aclosing

import grpc
import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.service import ControllerService
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.status import is_not_controller
from tests.support.controller import controller_config, node, topic


async def test_snapshot_then_deltas_then_resume(
    endpoints: ControllerEndpoints, client: ControllerClient
) -> None:
    await node(client, 1).join()
    stub = endpoints.current().metadata
    stream = aiter(stub.WatchCluster(pb.WatchClusterRequest()))
    snapshot = await anext(stream)
    assert snapshot.reset
    assert [n.node_id for n in snapshot.nodes] == [1]
    created = await client.create_topics(pb.CreateTopicsRequest(topics=[topic("a")]))
    delta = await anext(stream)
    assert (delta.reset, delta.revision) == (False, created.revision)
    assert [t.name for t in delta.topics] == ["a"]
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("b")]))
    resumed = aiter(
        stub.WatchCluster(
            pb.WatchClusterRequest(from_revision=delta.revision, cluster_id=snapshot.cluster_id)
        )
    )
    change = await anext(resumed)
    assert (change.reset, [t.name for t in change.topics]) == (False, ["b"])


async def test_all_watchers_get_the_same_object(controller: ControllerService) -> None:
    servicer = controller.metadata_servicer
    streams = [servicer.WatchCluster(pb.WatchClusterRequest(), None) for _ in range(2)]  # type: ignore[call-arg, arg-type]
    first, second = [await anext(aiter(stream)) for stream in streams]
    assert first is second, "converted once"
    for stream in streams:
        async with aclosing(stream):  # type: ignore[type-var]
            pass


async def test_a_standby_refuses() -> None:
    service = ControllerService(controller_config(), serve_grpc=False)
    stub = service.in_process_endpoints().current().metadata
    with pytest.raises(grpc.RpcError) as raised:
        await anext(aiter(stub.WatchCluster(pb.WatchClusterRequest())))
    assert is_not_controller(raised.value)
    await service.stop()


async def test_a_stop_ends_streams(
    controller: ControllerService, endpoints: ControllerEndpoints
) -> None:
    stream = aiter(endpoints.current().metadata.WatchCluster(pb.WatchClusterRequest()))
    await anext(stream)
    await controller.stop()
    with pytest.raises(grpc.RpcError):
        await asyncio.wait_for(anext(stream), 5)
