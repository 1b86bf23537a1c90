"""A group coordinator on a log in memory, called in Kafka's encoding."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.registry import request_codec
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.group_config import bounds_of
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.transactions import PartitionWriter
from highwater.partition.coordinator.shard_host import HostSettings, HostState
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.runtime import GroupCoordinator, GroupRoom, always_room
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from tests.unit.partition.coordinator.memory_log import MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until

NO_DELAY = GroupConfig(
    initial_rebalance_delay_ms=0,
    consumer_bounds=bounds_of({"group.consumer.assignment.interval.ms": "0"}),
)


def is_active(coordinator: GroupCoordinator, partition: int) -> bool:
    """Whether the partition is loaded and serves calls."""
    host = coordinator._hosts.by_partition.get(partition)
    return host is not None and host.state is HostState.ACTIVE


class Verifier:
    """A transaction coordinator that answers at once, unless the test does."""

    def __init__(self) -> None:
        self.asked: list[tuple[PartitionWriter, Callable[[int], None]]] = []
        self.answers = True

    def verify(self, writer: PartitionWriter, done: Callable[[int], None]) -> None:
        self.asked.append((writer, done))
        if self.answers:
            done(0)


class Sent:
    """A submitted call and its answer."""

    def __init__(self, call: CoordinatorCall, version: int) -> None:
        self.call = call
        self.version = version
        self.answers: list[tuple[int, bytes]] = []

    def answered(self, error: int, body: bytes) -> None:
        self.answers.append((error, body))

    @property
    def done(self) -> bool:
        return bool(self.answers)

    @property
    def code(self) -> int:
        (answer,) = self.answers
        return answer[0]

    @property
    def response(self) -> Any:
        (answer,) = self.answers
        assert answer[0] == 0, answer
        codec = request_codec(self.call.api_key)
        return codec.decode_response(answer[1], 0, self.version)


class Node:
    """One node as a gateway sees it."""

    def __init__(
        self,
        log: MemoryLog | None = None,
        snapshots: MemorySnapshots | None = None,
        *,
        config: GroupConfig = NO_DELAY,
        settings: HostSettings | None = None,
        partitions: int = 1,
        clock: Any = None,
        of_default_instance: bool = True,
        logger: Any = None,
        room: GroupRoom = always_room,
    ) -> None:
        self.log = log or MemoryLog()
        self.snapshots = snapshots or MemorySnapshots()
        self.verifier = Verifier()
        ids = itertools.count(1)
        self.coordinator = GroupCoordinator(
            log=self.log,
            snapshots=self.snapshots,
            partition_of=partial(coordinator_place, partitions=partitions),
            clock=clock or SystemClock(),
            logger=logger or silent_logger(),
            config=config,
            verifier=self.verifier,
            settings=settings,
            new_id=lambda: f"id{next(ids)}",
            of_default_instance=of_default_instance,
            room=room,
        )

    async def lead(self, *partitions: int, epoch: int = 1) -> Node:
        for partition in partitions or (0,):
            self.coordinator.become_leader(partition, epoch)
        for partition in partitions or (0,):
            await until(lambda p=partition: is_active(self.coordinator, p))
        return self

    def submit(
        self,
        message: Any,
        version: int,
        *,
        partition: int = 0,
        client_id: str = "app",
        deadline_ms: int = 60_000,
        instance: InstanceId = DEFAULT_INSTANCE,
        body: bytes | None = None,
        api_key: int | None = None,
    ) -> Sent:
        """Submit a request message; the answer may come later."""
        key = api_key if api_key is not None else _api_key(message)
        if body is None:
            body = request_codec(key).encode_request(message, version)
        call = CoordinatorCall(
            api_key=key,
            api_version=version,
            instance=instance,
            client_id=client_id,
            client_host="127.0.0.1",
            body=body,
            partition=partition,
            deadline_ms=deadline_ms,
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


def _api_key(message: Any) -> int:
    module = __import__(type(message).__module__, fromlist=["API_KEY"])
    return int(module.API_KEY)
