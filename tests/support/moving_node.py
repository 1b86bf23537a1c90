"""A LogManager with several directories on the test's loop, for moves between them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId, TopicId
from highwater.model.token_bucket import TokenBucket
from highwater.partition.storage.directory.handle_limits import HandleLimits
from highwater.partition.storage.directory.hosted_directory import HostedLog
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.errors import LogDirFailure, StorageError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.moving.log_move import LogMove, MoveSurroundings
from highwater.runtime.clock import SystemClock
from tests.support.log_batches import append, make_batch

PRODUCER = 42
NOW_MS = 1_700_000_000_000
"""The time of records, as `ManualClock` has it: their producers have not expired."""
_TOKEN = re.compile(r"\.[0-9a-f]{32}-")


def moved_topic(
    name: str = "orders", number: int = 1, configs: Mapping[str, str] | None = None
) -> TopicState:
    """A topic with small segments."""
    return TopicState(
        topic_id=TopicId(bytes([number]) * 16),
        instance=InstanceId("default"),
        name=name,
        partitions=(),
        configs={"segment.bytes": "1048576", "retention.ms": "-1", **(configs or {})},
        internal=False,
    )


class StillCalendar(SystemClock):
    """Time passes, but the date stays."""

    def wall_ms(self) -> int:
        return NOW_MS


class MovingNode:
    """Construct it on a running loop; `close` ends its threads."""

    def __init__(self, *dirs: Path, filesystems: Mapping[Path, FileSystem] | None = None) -> None:
        made = {str(path): files for path, files in (filesystems or {}).items()}
        loop = asyncio.get_running_loop()

        def post(callback: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(callback)

        self.dirs = dirs
        self.clock = StillCalendar()
        self.failures: list[tuple[int, LogDirFailure]] = []
        self.manager = LogManager(
            dirs,
            clock=self.clock,
            post=post,
            on_dir_failure=lambda index, failure: self.failures.append((index, failure)),
            limits=HandleLimits(files=100, maps=50),
            make_filesystem=lambda path: made.get(path) or FileSystem(),
        )
        self.manager.open()
        self.manager.start()
        self.executor = ThreadPoolExecutor(1)
        self.pace = TokenBucket()
        self.events: list[int | str] = []
        """The new directory of a log that moved, and "released" when a hold has ended."""

    def open(self, topic: TopicState | None = None, partition: int = 0) -> PartitionLog:
        return self.manager.open_log(topic or moved_topic(), partition)[0]

    def entry(self, log: PartitionLog) -> HostedLog:
        entry = self.manager.entry_of(log)
        if entry is None:
            raise StorageError("the log's directory has failed")
        return entry

    def move(self, log: PartitionLog, index: int, token: str | None = None) -> LogMove:
        return LogMove(
            log,
            self.manager.dirs[index],
            token=token or os.urandom(16).hex(),
            surroundings=MoveSurroundings(
                manager=self.manager, executor=self.executor, pace=self.pace, clock=self.clock
            ),
            on_moved=self.events.append,
            on_released=lambda: self.events.append("released"),
        )

    async def flush(self, log: PartitionLog) -> None:
        """Has the log and the checkpoints of its directory on disk."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        hosted = self.entry(log).directory
        self.manager.flush(log, lambda: hosted.checkpoint_soon(lambda: done.set_result(None)))
        async with asyncio.timeout(20):
            while not done.done():
                if hosted.failure is not None:
                    raise hosted.failure
                await asyncio.sleep(0.001)

    async def settled(self) -> None:
        """Waits for the jobs of all directories' workers."""
        loop = asyncio.get_running_loop()
        for hosted in self.manager.online():
            done: asyncio.Future[None] = loop.create_future()
            hosted.run_later(lambda: None, partial(done.set_result, None))
            async with asyncio.timeout(20):
                await done

    def close(self) -> list[LogDirFailure]:
        self.executor.shutdown(wait=True)
        return self.manager.close(timeout_s=5)

    def places(self, name: str = "orders-0") -> list[list[str]]:
        """What each directory has of a partition, without tokens and what is to be removed."""
        return [
            sorted(
                _TOKEN.sub(".T-", path.name)
                for path in directory.glob(f"{name}*")
                if not path.name.endswith("-delete")
            )
            for directory in self.dirs
        ]


def fill(
    log: PartitionLog,
    batches: int,
    *,
    roll_every: int = 0,
    value: bytes = b"some value",
    epoch: int | None = None,
) -> None:
    """Appends batches of two records of one idempotent producer; rolls now and then. Every twenty
    records have a leader epoch of their own, unless one is given.
    """
    for _ in range(batches):
        entries = {e.producer_id: e.last_sequence for e in log.producers.states.entries()}
        batch = make_batch(
            timestamps=(NOW_MS + log.log_end_offset, NOW_MS + log.log_end_offset + 1),
            value=value,
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=entries.get(PRODUCER, -1) + 1,
        )
        append(log, batch, epoch=log.log_end_offset // 20 if epoch is None else epoch)
        if roll_every and (log.log_end_offset // 2) % roll_every == 0:
            log.roll()
