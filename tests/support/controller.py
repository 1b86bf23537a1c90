"""A controller for tests, with members that register, watch and send heartbeats by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from highwater.api.controller.v1 import cluster_pb2
from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.config import ControllerConfig
from highwater.controller.service import ControllerService
from highwater.controller.store.port import MetadataStore
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch, Watcher
from highwater.model.cluster import ClusterImage, PartitionState

START_TIMEOUT_S = 10.0


@dataclass(slots=True)
class FakeNode:
    """A node as the controller sees it; each call is made by the test."""

    client: ControllerClient
    address: str
    incarnation: str
    node_id: int = -1
    epoch: int = -1
    previous_epoch: int = -1
    lineage: tuple[str, ...] = ()
    """Incarnations whose logs it has in full."""
    rack: str = ""
    log_dirs: list[str] = field(default_factory=list)
    static_configs: dict[str, str] = field(default_factory=dict)

    async def register(self) -> pb.RegisterNodeResponse:
        response = await self.client.register_node(
            pb.RegisterNodeRequest(
                node_id=self.node_id,
                address=self.address,
                incarnation=self.incarnation,
                rack=self.rack,
                log_dirs=self.log_dirs,
                previous_node_epoch=self.previous_epoch,
                lineage=self.lineage,
                static_configs=self.static_configs,
            )
        )
        if not response.error.error_code:
            self.node_id, self.epoch = response.node_id, response.node_epoch
        return response

    async def beat(self, revision: int = 1 << 40, **fields: Any) -> pb.HeartbeatResponse:
        return await self.client.heartbeat(
            pb.HeartbeatRequest(
                node_id=self.node_id, node_epoch=self.epoch, applied_revision=revision, **fields
            )
        )

    async def join(self) -> FakeNode:
        """Registers and is unfenced."""
        response = await self.register()
        assert response.error.error_code == 0, response.error.message
        assert not (await self.beat()).fenced
        return self


def controller_config(*, driver: str = "memory", **settings: Any) -> ControllerConfig:
    """Settings for tests: everything in memory, on any port, with short times."""
    values: dict[str, Any] = {
        "store": driver,
        "port": 0,
        "controller_id": "c1",
        "session_timeout_ms": 2_000,
        "stream_grace_ms": 200,
        "heartbeat_interval_ms": 200,
        **settings,
    }
    return ControllerConfig(**values)


async def started(
    *, store: MetadataStore | None = None, serve_grpc: bool = False, **settings: Any
) -> ControllerService:
    """Starts a controller; returns when it is active."""
    service = ControllerService(controller_config(**settings), store=store, serve_grpc=serve_grpc)
    await service.start()
    await service.wait_active(START_TIMEOUT_S)
    return service


def endpoints_of(service: ControllerService) -> ControllerEndpoints:
    """Endpoints of a controller: gRPC if it has a server, else in process."""
    if service.address == "in-process":
        return service.in_process_endpoints()
    return ControllerEndpoints([service.address])


def topic(name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> pb.NewTopic:
    """A topic to create."""
    return pb.NewTopic(name=name, partitions=partitions, replication_factor=factor, **fields)


def gateway_state(gateway_id: str, host: str = "127.0.0.1", port: int = 9092) -> Any:
    """A gateway to register."""
    return cluster_pb2.GatewayState(gateway_id=gateway_id, host=host, port=port, rack=host)


async def make_instance(client: ControllerClient, name: str, **fields: Any) -> int:
    """Creates an instance; the revision."""
    response = await client.create_instance(
        pb.CreateInstanceRequest(instance={"instance": name, **fields})
    )
    assert response.error.error_code == 0, response.error.message
    return response.revision


async def image_when(
    watch: ClusterWatch, holds: Callable[[Any], object], timeout_s: float = 5.0
) -> ClusterImage:
    """The first image of which `holds(image)` is true."""
    async with asyncio.timeout(timeout_s):
        while watch.image is None or not holds(watch.image):
            await watch.wait_for_revision(watch.revision + 1, timeout_s)
    return watch.image


def partition_of(image: ClusterImage, name: str, number: int = 0) -> PartitionState:
    state = image.topic(name)
    assert state is not None
    return state.partitions[number]


def node(client: ControllerClient, number: int, incarnation: str = "a") -> FakeNode:
    return FakeNode(client, f"127.0.0.1:{9300 + number}", f"{incarnation}{number}", number)


async def die(endpoints: ControllerEndpoints, dead: FakeNode) -> None:
    """The node's stream ends, as after kill -9."""
    stream = ClusterWatch(endpoints, watcher=Watcher(node_id=dead.node_id, node_epoch=dead.epoch))
    stream.start()
    await stream.wait_for_revision(1, 5.0)
    await stream.stop()
    await asyncio.sleep(0.05)
