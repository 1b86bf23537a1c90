"""A transaction coordinator on a log in memory, called in Kafka's encoding, and partitions that take
markers as the test says.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.registry import request_codec
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, InstanceId, NodeId, TopicId
from highwater.partition.coordinator.shard_host import HostSettings, HostState
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.marker_sender import AddressedMarker, Destination
from highwater.partition.transactions.runtime import TransactionCoordinator
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.unit.partition.coordinator.memory_log import MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until
from tests.unit.partition.groups.node import Sent

GROUP_PARTITION = TopicPartition("__consumer_offsets", 3)


class Partitions:
    """A `MarkerPort`: the leaders of topic "t" and of a group's offsets."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {
            TopicPartition("t", 0): 1,
            TopicPartition("t", 1): 1,
            TopicPartition("t", 2): 2,
            GROUP_PARTITION: 2,
        }
        self.without_topics: set[InstanceId] = set()
        """Instances; all others have the same."""
        self.codes: dict[TopicPartition, int | None] = {}
        """What a partition answers if it does not take the marker; None for silence."""
        self.hold = False
        self.sent: list[tuple[NodeId, Sequence[AddressedMarker], Callable[..., None]]] = []
        """Requests without an answer."""
        self.requests: list[tuple[int, list[TopicPartition]]] = []
        self.written: list[tuple[TopicPartition, Any]] = []
        """(partition, marker), in the order of the answers."""

    def find(self, instance: InstanceId, partition: TopicPartition) -> Destination | None:
        leader = self.leaders.get(partition)
        if leader is None or instance in self.without_topics:
            return None
        return Destination(
            NodeId(leader) if leader else NO_NODE,
            TopicId(partition.topic.encode().ljust(16, b"\1")[:16]),
            partition.partition,
            5,
        )

    def exists(self, instance: InstanceId, partition: TopicPartition) -> bool:
        return self.find(instance, partition) is not None

    def name_of(self, to: Destination) -> TopicPartition:
        (found,) = (
            each for each in self.leaders if self.find(DEFAULT_INSTANCE, each)[1:3] == to[1:3]
        )
        return found

    def send(
        self,
        node: NodeId,
        markers: Sequence[AddressedMarker],
        done: Callable[[Sequence[int] | None], None],
    ) -> None:
        names = [self.name_of(to) for each in markers for to in each.partitions]
        self.requests.append((int(node), names))
        self.sent.append((node, markers, done))
        if not self.hold:
            self.answer()

    def answer(self) -> None:
        """Answers the requests under way."""
        sent, self.sent = self.sent, []
        for _, markers, done in sent:
            codes: list[int | None] = []
            for marker, destinations in markers:
                for to in destinations:
                    name = self.name_of(to)
                    code = self.codes.get(name, 0)
                    if code == 0:
                        self.written.append((name, marker))
                    codes.append(code)
            done(None if None in codes else codes)


class Topics:
    """`TopicPartitions` with one group partition."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def of_transaction(self, instance: InstanceId, transactional_id: str) -> int:
        return coordinator_place(instance, transactional_id, self.partitions)

    def of_group(self, _instance: InstanceId, group_id: str) -> TopicPartition:
        return GROUP_PARTITION if group_id == "g" else TopicPartition("__consumer_offsets", 4)


class Node:
    """One node as a gateway sees it."""

    def __init__(
        self,
        log: MemoryLog | None = None,
        snapshots: MemorySnapshots | None = None,
        markers: Partitions | None = None,
        *,
        ids: Any = None,
        config: TransactionConfig | None = None,
        settings: HostSettings | None = None,
        partitions: int = 1,
        clock: Any = None,
        logger: Any = None,
        of_default_instance: bool = True,
    ) -> None:
        self.log = log or MemoryLog()
        self.snapshots = snapshots or MemorySnapshots()
        self.markers = markers or Partitions()
        self.ids = ids or itertools.count(1000)
        self.coordinator = TransactionCoordinator(
            log=self.log,
            snapshots=self.snapshots,
            topics=Topics(partitions),
            clock=clock or SystemClock(),
            logger=logger or silent_logger(),
            markers=self.markers,
            new_producer_id=lambda: next(self.ids, None),
            transaction_version=lambda: 2,
            config=config,
            settings=settings,
            of_default_instance=of_default_instance,
        )

    def is_active(self, partition: int = 0) -> bool:
        host = self.coordinator._hosts.by_partition.get(partition)
        return host is not None and host.state is HostState.ACTIVE

    async def lead(self, *partitions: int, epoch: int = 1) -> Node:
        for partition in partitions or (0,):
            self.coordinator.become_leader(partition, epoch)
        for partition in partitions or (0,):
            await until(lambda p=partition: self.is_active(p))
        return self

    def submit(
        self,
        message: Any,
        version: int,
        *,
        partition: int = 0,
        instance: InstanceId = DEFAULT_INSTANCE,
        body: bytes | None = None,
    ) -> Sent:
        """Submit a request message; the answer may come later."""
        module = __import__(type(message).__module__, fromlist=["API_KEY"])
        key = int(module.API_KEY)
        if body is None:
            body = request_codec(key).encode_request(message, version)
        call = CoordinatorCall(
            api_key=key,
            api_version=version,
            instance=instance,
            client_id="app",
            client_host="127.0.0.1",
            body=body,
            partition=partition,
            deadline_ms=60_000,
            reply=lambda error, answer: sent.answered(error, answer),  # noqa: PLW0108 - defined below.
        )
        sent = Sent(call, version)
        self.coordinator.submit(call)
        return sent

    async def ask(self, message: Any, version: int, **options: Any) -> Any:
        """Submit and wait for the response."""
        sent = self.submit(message, version, **options)
        await until(lambda: sent.done)
        return sent.response
