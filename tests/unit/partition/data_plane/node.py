"""A node's data plane on real logs; the test controls its timers and failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from highwater.hop.append import AppendGroup
from highwater.hop.fetch import FetchedPartition, FetchPartition, FetchWork, ReplyMemory
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, NodeId, TopicId
from highwater.model.time import CallLater
from highwater.partition.data_plane.controller_session import ControllerSession
from highwater.partition.data_plane.plane import DataPlane, Meter
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import StorageError
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import ManualClock
from tests.unit.hop.sinks import TOPIC, Sink, group_of
from tests.unit.partition.data_plane.roles import NODE
from tests.unit.partition.data_plane.roles import lead as make_leader

EPOCH = 4


class Timer:
    """The result of `call_later`."""

    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self.seconds, self.callback = seconds, callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Node:
    """One data plane; replicas lead in epoch 4 unless the test says otherwise."""

    def __init__(
        self,
        directory: Path,
        *,
        rack_aware: bool = False,
        meters: Mapping[InstanceId, Meter] | None = None,
        call_later: CallLater | None = None,
    ) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.timers: list[Timer] = []
        self.bugs: list[Exception] = []
        self.log_failures: list[StorageError] = []
        self.plane = DataPlane(
            call_later or self._call_later,
            lambda _replica, error: self.bugs.append(error),
            meters,
            rack_aware=rack_aware,
        )

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(seconds, callback))
        return self.timers[-1]

    def turn(self) -> None:
        """Run the callbacks of the loop's next turn."""
        due = [timer for timer in self.timers if not timer.seconds]
        self.timers = [timer for timer in self.timers if timer.seconds]
        for timer in due:
            timer.callback()

    def _log_failed(self, replica: PartitionReplica, error: StorageError) -> None:
        self.log_failures.append(error)
        replica.fail()

    def add(
        self,
        partition: int = 0,
        *,
        topic_id: TopicId = TOPIC,
        policy: AppendPolicy | None = None,
        lead: bool = True,
        environment: InlineEnvironment | None = None,
        session: ControllerSession | None = None,
        clean: bool = False,
        **config: Any,
    ) -> PartitionReplica:
        log = PartitionLog.open(
            self.directory / f"orders-{partition}",
            topic="orders",
            partition=partition,
            config=LogConfig(**config),
            clock=self.clock,
            environment=environment or InlineEnvironment(),
            clean=clean,
        )
        replica = PartitionReplica(
            node=NODE,
            topic_id=topic_id,
            topic_name="orders",
            partition=partition,
            log=log,
            log_dir=0,
            policy=policy or AppendPolicy(),
            clock=self.clock,
            on_log_failure=self._log_failed,
            session=session,
        )
        self.plane.replicas[topic_id, partition] = replica
        if lead:
            make_leader(replica, EPOCH)
        return replica

    def append(self, *batches: Any, epoch: int = EPOCH, **spec: Any) -> Sink:
        """Append one group; the sink has its results."""
        sink = Sink()
        self.plane.append([group_of(*batches, sink=sink, epoch=epoch, **spec)])
        return sink

    def group(self, *batches: Any, epoch: int = EPOCH, **spec: Any) -> tuple[AppendGroup, Sink]:
        """Append one group and return it, too."""
        sink = Sink()
        made = group_of(*batches, sink=sink, epoch=epoch, **spec)
        return made, sink

    def work(self, *asked: FetchPartition, **spec: Any) -> Fetched:
        return Fetched(asked, **spec)

    def fetch(self, *asked: FetchPartition, **spec: Any) -> Fetched:
        fetched = Fetched(asked, **spec)
        self.plane.fetch(fetched.work)
        return fetched


class Memory:
    """A `ReplyMemory`: with one, small records are returned as bytes."""

    def __init__(self, *, replies_scarce: bool = False) -> None:
        self.replies_scarce = replies_scarce


class Fetched:
    """A fetch and its answers."""

    def __init__(
        self,
        asked: tuple[FetchPartition, ...],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        isolation_level: int = 0,
        memory: ReplyMemory | None = None,
        near: tuple[int, ...] = (),
    ) -> None:
        self.answers = 0
        self.work = FetchWork(
            instance=DEFAULT_INSTANCE,
            partitions=list(asked),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            done=self._done,
            memory=memory,
            near=tuple(NodeId(node) for node in near),
        )

    def _done(self, work: FetchWork) -> None:
        assert work is self.work
        self.answers += 1

    @property
    def results(self) -> list[FetchedPartition]:
        assert self.answers == 1, f"answered {self.answers} times"
        return self.work.results

    @property
    def codes(self) -> list[int]:
        return [result.error_code for result in self.results]

    @property
    def sizes(self) -> list[int]:
        return [result.nbytes for result in self.results]


def ask(offset: int, partition: int = 0, **spec: Any) -> FetchPartition:
    return FetchPartition(
        spec.get("topic_id", TOPIC),
        partition,
        spec.get("epoch", -1),
        offset,
        spec.get("last_epoch", -1),
        spec.get("max_bytes", 1 << 20),
    )


def stored(replica: PartitionReplica) -> bytes:
    """All bytes of the log's files, in order."""
    files = sorted(Path(replica.log.directory).glob("*.log"))
    return b"".join(file.read_bytes() for file in files)
