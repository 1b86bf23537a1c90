"""A controller and a gateway's routing over gRPC, with many partitions and simulated nodes.

The store is prefilled and in memory; there are no heartbeats, and sessions are longer than any run.
Controller and gateway share one event loop, so the longest stop found is that of either.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from highwater.controller.active.active import ActiveController
from highwater.controller.config import ControllerConfig
from highwater.controller.core.membership import ElectionRules, changing_nodes, fence
from highwater.controller.service import ControllerService
from highwater.controller.store.image_store import operations
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import chunks
from highwater.gateway.data_plane.follow_image import ImageFollower
from highwater.gateway.data_plane.held_produce import HeldProduce
from highwater.gateway.routing.node_links import NodeLinks
from highwater.gateway.routing.table import PartitionRoute, RoutingTable
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    NodeState,
    PartitionState,
    TopicState,
)
from highwater.model.ids import DEFAULT_INSTANCE, LeaderEpoch, NodeId, TopicId

REPLICATION = 3
NODE_STRIDE = 10
"""Nodes 5, 15, 25, ... lead all partitions that they have, and share none with each other."""

RULES = ElectionRules(min_isr=lambda _: 2, unclean=lambda _: False)
START_TIMEOUT_S = 60.0
TICK_S = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of the cluster."""

    nodes: int = 100
    topics: int = 1_000
    partitions_per_topic: int = 100

    @property
    def partitions(self) -> int:
        """The partitions of all topics."""
        return self.topics * self.partitions_per_topic

    @property
    def victims(self) -> list[NodeId]:
        """Nodes that lead all partitions they have."""
        return [NodeId(n) for n in range(5, self.nodes - 1, NODE_STRIDE)]


def image_of(size: Size) -> ClusterImage:
    """The healthy cluster."""
    nodes = [
        NodeState(
            node_id=NodeId(n),
            node_epoch=1,
            address=f"192.0.2.{n}:1",  # RFC 5737: no host is there, and none refuses a connection.
            rack="",
            incarnation=f"i{n}",
            fenced=False,
        )
        for n in range(1, size.nodes + 1)
    ]
    topics = [_topic(size, number) for number in range(size.topics)]
    delta = ClusterDelta(revision=1, topics=tuple(topics), nodes=tuple(nodes))
    return ClusterImage(revision=0, cluster_id="").apply(delta)


def _topic(size: Size, number: int) -> TopicState:
    partitions = []
    for partition in range(size.partitions_per_topic):
        first = number * size.partitions_per_topic + partition
        replicas = tuple(NodeId((first + k) % size.nodes + 1) for k in range(REPLICATION))
        leader = next((n for n in replicas if n in size.victims), replicas[0])
        partitions.append(
            PartitionState(
                partition=partition,
                leader=leader,
                last_known_leader=leader,
                leader_epoch=LeaderEpoch(1),
                partition_epoch=1,
                replicas=replicas,
                isr=replicas,
            )
        )
    return TopicState(
        topic_id=TopicId(number.to_bytes(16, "big")),
        instance=DEFAULT_INSTANCE,
        name=f"topic-{number}",
        partitions=tuple(partitions),
    )


@dataclass(slots=True)
class Stops:
    """The longest time in which the event loop did not run other tasks."""

    longest_ms: float = 0.0
    """By the wall clock: other processes on the machine count."""
    longest_cpu_ms: float = 0.0
    """CPU time of the thread in one stop, without garbage collection."""
    collector_ms: float = 0.0
    """CPU time of the longest garbage collection."""


@contextmanager
def watched_loop() -> Iterator[Stops]:
    """Measures the loop's stops from now on."""
    stops = Stops()
    collector_began: list[float] = []
    collected_ms = 0.0

    def collecting(phase: str, _info: dict[str, int]) -> None:
        nonlocal collected_ms
        if phase == "start":
            collector_began.append(time.thread_time())
        else:
            took_ms = (time.thread_time() - collector_began.pop()) * 1e3
            collected_ms += took_ms
            stops.collector_ms = max(stops.collector_ms, took_ms)

    async def tick() -> None:
        while True:
            began, began_cpu, collected_before_ms = (
                time.perf_counter(),
                time.thread_time(),
                collected_ms,
            )
            await asyncio.sleep(TICK_S)
            late_ms = (time.perf_counter() - began - TICK_S) * 1e3
            worked_ms = (time.thread_time() - began_cpu) * 1e3
            worked_ms -= collected_ms - collected_before_ms
            stops.longest_ms = max(stops.longest_ms, late_ms)
            stops.longest_cpu_ms = max(stops.longest_cpu_ms, worked_ms)

    task = asyncio.get_running_loop().create_task(tick())
    gc.callbacks.append(collecting)
    try:
        yield stops
    finally:
        gc.callbacks.remove(collecting)
        task.cancel()


class _Link:
    """A link that never sends: the benchmark has no traffic."""

    takes_appends = True
    open_segment_files = 0
    groups_sent = 0
    fetches_sent = 0

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self.node_id = state.node_id

    def appends_under_way(self) -> Iterator[object]:
        return iter(())

    def set_fenced(self, fenced: bool) -> None:
        pass

    def ending_waits(self) -> Iterator[None]:
        return iter(())

    def expire(self, now_ms: int) -> None:
        pass

    async def close(self) -> None:
        pass


@dataclass(slots=True)
class GatewayRouting:
    """A gateway's view of the cluster: the parts of `GatewayService` without sockets."""

    watch: ClusterWatch
    routing: RoutingTable
    applied: dict[int, float] = field(default_factory=dict)
    """When each revision was applied to the routes, by `time.perf_counter`."""

    async def at(self, revision: int) -> float:
        """When that revision was applied."""
        await self.watch.wait_for_revision(revision, START_TIMEOUT_S)
        return self.applied[revision]


@asynccontextmanager
async def controller_of(image: ClusterImage) -> AsyncIterator[tuple[str, ActiveController]]:
    """A controller that serves the image over gRPC: its address and its term."""
    store = MemoryStore()
    delta = ClusterDelta(
        revision=1, topics=tuple(image.topics.values()), nodes=tuple(image.nodes.values())
    )
    for some in chunks(operations(ClusterImage(revision=0, cluster_id=""), delta)):
        await store.txn((), some)
    settings: dict[str, Any] = {
        "store": "memory",
        "port": 0,
        "controller_id": "bench",
        "session_timeout_ms": 300_000,
        "heartbeat_interval_ms": 1_000,
        "leader_imbalance_check_interval_ms": 0,
    }
    config = ControllerConfig(**settings)
    service = ControllerService(config, store=store)
    await service.start()
    try:
        yield service.address, await service.wait_active(START_TIMEOUT_S)
    finally:
        await service.stop()


@asynccontextmanager
async def gateway_of(address: str) -> AsyncIterator[GatewayRouting]:
    """The routing of a gateway that watches the controller at that address."""
    endpoints = ControllerEndpoints([address])
    watch = ClusterWatch(endpoints)
    links = NodeLinks(_Link, lambda _name, _error: None)  # type: ignore[arg-type,unused-ignore]

    def route_of(topic_id: TopicId, partition: int) -> PartitionRoute | None:
        return routing.route(topic_id, partition)

    held = HeldProduce(
        1 << 20,
        route_of=route_of,
        is_lost=links.is_lost,
        call_later=asyncio.get_running_loop().call_later,
    )
    routing = RoutingTable(links.link_to, held)
    follower = ImageFollower(links, routing, held)
    gateway = GatewayRouting(watch, routing)
    watch.subscribe(follower.following)

    def note(image: ClusterImage, _delta: ClusterDelta | None) -> None:
        gateway.applied[image.revision] = time.perf_counter()

    watch.subscribe(note)
    watch.start()
    try:
        await watch.wait_for_revision(1, START_TIMEOUT_S)
        yield gateway
    finally:
        await watch.stop()
        await links.close()
        await endpoints.close()


async def end_node(term: ActiveController, node: NodeId) -> tuple[int, int]:
    """Fences a node, as if its session had ended; the number of elections, and the revision."""
    writer = term.members._writer
    return await writer.commit_in_steps(
        lambda image: changing_nodes(image, [fence(image.nodes[node])], RULES, index=writer.index)
    )
