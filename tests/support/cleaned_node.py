"""A LogManager on the test's loop, with one compacted log, for tests of the cleaner."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path

from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.storage.cleaning.cleaner import Cleaner
from highwater.partition.storage.cleaning.settings import CleanerSettings
from highwater.partition.storage.directory.handle_limits import HandleLimits
from highwater.partition.storage.directory.hosted_directory import HostedLog
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.logging import LogSettings, make_logger
from tests.support.compacted_logs import keyed_batch
from tests.support.log_batches import ManualClock, append

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


def compacted_topic(name: str = "table", number: int = 1, **configs: str) -> TopicState:
    """A topic with `COMPACT`; configs have underscores for dots."""
    changed = {key.replace("_", "."): value for key, value in configs.items()}
    return TopicState(
        topic_id=TopicId(bytes([number]) * 16),
        instance=InstanceId("default"),
        name=name,
        partitions=(),
        configs=COMPACT | changed,
        internal=False,
    )


class CleanedNode:
    """Construct it on a running loop; `close` ends its threads."""

    def __init__(self, directory: Path, filesystem: FileSystem | None = None) -> None:
        loop = asyncio.get_running_loop()

        def post(callback: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(callback)

        self.clock = ManualClock()
        self.failures: list[LogDirFailure] = []
        self._stream = io.StringIO()
        self.manager = LogManager(
            [directory],
            clock=self.clock,
            post=post,
            on_dir_failure=lambda _, failure: self.failures.append(failure),
            limits=HandleLimits(files=100, maps=50),
            make_filesystem=lambda _: filesystem or FileSystem(),
        )
        self.manager.open()
        self.manager.start()

    def cleaner(self, *, enable: bool = True, **settings: int) -> Cleaner:
        """A cleaner that looks for work ten times a second."""
        log = make_logger(LogSettings(format="json"), stream=self._stream)
        options = CleanerSettings(**({"backoff_ms": 100} | settings))
        return Cleaner(self.manager, clock=self.clock, log=log, settings=options, enable=enable)

    def logged(self, event: str) -> list[dict[str, object]]:
        """The cleaners' log entries with that event."""
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]

    def log(self, topic: TopicState | None = None) -> PartitionLog:
        """The topic's log, opened or created."""
        return self.manager.open_log(topic or compacted_topic(), 0)[0]

    def entry(self, log: PartitionLog) -> HostedLog:
        """The manager's entry of a log."""
        (found,) = [entry for entry in self.manager.entries() if entry.log is log]
        return found

    def fill(
        self, log: PartitionLog, *, segments: int = 3, updates: int = 20, keys: int = 5
    ) -> None:
        """Writes closed segments of updates to few keys, all committed, and a record after them."""
        for segment in range(segments):
            for number in range(updates):
                pair = (b"%d" % (number % keys), b"%d in %d" % (number, segment))
                append(log, keyed_batch([pair], timestamp_ms=self.clock.now_ms))
            log.roll()
        append(log, keyed_batch([(b"last", b"1")], timestamp_ms=self.clock.now_ms))
        log.stored_high_watermark = log.log_end_offset

    async def settle(self) -> None:
        """Waits until the directory's worker has done its work."""
        done = asyncio.get_running_loop().create_future()
        self.manager.dirs[0].run_later(lambda: None, lambda: done.set_result(None))
        await asyncio.wait_for(done, 30)

    def close(self) -> None:
        """Closes the parts in order."""
        self.manager.close()
