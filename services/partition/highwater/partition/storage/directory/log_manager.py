"""The logs of one node, in one or several directories (Kafka's `LogManager`).

Lifecycle: `open` (on any thread) -> `start` -> logs and maintenance -> `close`. After `open` one
thread, the node's loop, owns everything. Long disk work runs on each directory's worker. A
directory that fails goes offline with its logs; the others go on.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.dynamic_config import broker_number
from highwater.model.ids import NO_TOPIC_ID, NodeId
from highwater.model.time import Clock
from highwater.model.topic_config import EffectiveConfigs
from highwater.partition.core.producer_budget import ProducerBudget, ProducerLimits
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.directory.assigned_logs import is_new, is_stray
from highwater.partition.storage.directory.handle_limits import HandleLimits
from highwater.partition.storage.directory.hosted_directory import (
    HostedDirectory,
    HostedLog,
)
from highwater.partition.storage.directory.log_directory import (
    NO_EPOCH,
    DirectoryIdentity,
    LogDirectory,
)
from highwater.partition.storage.directory.node_lineage import NodeLineage
from highwater.partition.storage.directory.preferred_directories import PreferredDirectories
from highwater.partition.storage.directory.storage_stats import StorageStats
from highwater.partition.storage.directory.unfinished_moves import UnfinishedMoves
from highwater.partition.storage.errors import (
    CorruptCheckpointError,
    LogDirFailure,
    StorageError,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.names import partition_directory

STOP_TIMEOUT_S: Final = 10.0
"""How long shutdown waits for a directory's worker."""
_TOKEN_BYTES: Final = 16


class LogManager:
    """See the module. `dirs[i]` has index i in the node's registration."""

    def __init__(
        self,
        dirs: Sequence[Path | str],
        *,
        clock: Clock,
        post: Callable[[Callable[[], None]], None],
        on_dir_failure: Callable[[int, LogDirFailure], None],
        limits: HandleLimits | None = None,
        jitter_share: Callable[[], float] = lambda: 0.0,
        producer_limits: ProducerLimits | None = None,
        make_filesystem: Callable[[str], FileSystem] = lambda _: FileSystem(),
        lineage: NodeLineage | None = None,
    ) -> None:
        """`post` runs a callback on the owner's thread, from any thread. `on_dir_failure` is called
        there once per directory, after its logs are removed from use. `jitter_share` draws a number
        in [0, 1) per log (segment.jitter.ms). `lineage`, if given, is kept in the directories.
        """
        self._lineage = lineage
        self._on_dir_failure = on_dir_failure
        self._jitter_share = jitter_share
        self._producer_limits = producer_limits or ProducerLimits()
        self._default_config = LogConfig.default(self._producer_limits)
        self.producers = ProducerBudget(self._producer_limits.per_node)
        """All usable logs by name."""
        self._logs: dict[str, HostedLog] = {}
        self._doubles: list[HostedLog] = []
        """Logs with the same name as one of `_logs`, but of other topics and directories."""
        self._broker_configs: Mapping[str, str] = {}
        self._configs = EffectiveConfigs()
        self.preferred = PreferredDirectories()
        self.arriving: list[tuple[HostedLog, HostedDirectory]] = []
        """Logs that are about to move to a directory, whose checkpoints have them, too."""
        self.unusable: dict[str, StorageError] = {}
        """Names of partitions' directories that could not be opened, and why."""
        share = (limits or HandleLimits.of_process()).split(len(dirs))
        self.dirs = [
            HostedDirectory(
                index,
                LogDirectory(os.fspath(path), make_filesystem(os.fspath(path))),
                clock=clock,
                post=post,
                on_failure=self.fail_dir,
                entries=self._checkpointed,
                limits=share,
            )
            for index, path in enumerate(dirs)
        ]
        self.unfinished = UnfinishedMoves(self.dirs)
        """Moves that an earlier process has left; settled by `open`."""

    # -- start and stop -------------------------------------------------------------------------

    def open(self) -> DirectoryIdentity:
        """Opens and recovers every log in every directory; returns their common identity.

        A directory that cannot be read goes offline. Raises LogDirInUseError, or StorageError if
        the directories belong to different nodes or hold the same partition twice.
        """
        opened: list[HostedDirectory] = []
        try:
            for hosted in self.dirs:
                self._open_dir(hosted, opened)
            identity = self._common_identity(opened)
            if self._lineage is not None:
                self._lineage.begin(opened, unreadable=len(self.dirs) - len(opened))
                for hosted in opened:
                    hosted.on_loss = partial(self._lineage.record_loss, hosted)
            self.unfinished.settle()
            usable = [hosted for hosted in opened if hosted.failure is None]
            with ThreadPoolExecutor(max(len(usable), 1), "recovery") as pool:
                found = list(pool.map(lambda h: h.open_logs(self._default_config), usable))
            for hosted, (logs, unusable) in zip(usable, found, strict=True):
                self.unusable.update(unusable)
                for entry in logs:
                    self._add(entry)
                if self._lineage is not None and not unusable:
                    self._lineage.recovered(hosted)
        except StorageError:
            for hosted in opened:
                hosted.directory.close()
            raise
        return identity

    def _open_dir(self, hosted: HostedDirectory, opened: list[HostedDirectory]) -> None:
        try:
            hosted.directory.open()
        except LogDirFailure as failure:
            hosted.failure = failure
        except CorruptCheckpointError as error:
            hosted.failure = LogDirFailure(hosted.directory.path, OSError(str(error)))
        else:
            opened.append(hosted)

    def start(self) -> None:
        """Starts the workers and reports directories that failed during `open`."""
        for hosted in self.dirs:
            if hosted.failure is None:
                hosted.start()
                if self.unfinished.found:
                    hosted.checkpoint_soon()
        for hosted in self.dirs:
            if hosted.failure is not None:
                self._note_failure_in_lineage(hosted)
                self._on_dir_failure(hosted.index, hosted.failure)

    def close(
        self, *, node_epoch: int = NO_EPOCH, timeout_s: float = STOP_TIMEOUT_S
    ) -> list[LogDirFailure]:
        """Closes all logs, writes checkpoints and marks directories as shut down in order.

        Blocks while the disks work, at most `timeout_s` per worker. Returns the failures; those
        directories are recovered at the next start.
        """
        failures = [
            hosted.close(self._in(hosted), node_epoch, timeout_s=timeout_s) for hosted in self.dirs
        ]
        if self._lineage is not None:
            failures += self._lineage.close(self.dirs, failures)
        for hosted in self.dirs:
            hosted.directory.close()
        self._logs.clear()
        for entry in self._doubles:
            entry.log.close(clean=False)  # Nothing was written to it since it was opened.
        return [failure for failure in failures if failure is not None]

    @property
    def clean(self) -> bool:
        """Whether all directories were closed in order before this start."""
        return all(hosted.directory.clean for hosted in self.dirs)

    @property
    def previous_node_epoch(self) -> int:
        """The node's epoch before a clean stop; -1 if the stop was not clean everywhere."""
        epochs = {hosted.directory.previous_node_epoch for hosted in self.dirs}
        return epochs.pop() if self.clean and len(epochs) == 1 else NO_EPOCH

    @property
    def all_dirs_failed(self) -> bool:
        """Whether no directory is online."""
        return all(hosted.failure is not None for hosted in self.dirs)

    @property
    def hangs(self) -> bool:
        """Whether writes hang in every directory, though none has failed; from any thread.

        The writes may still end, and the node then goes on.
        """
        online = self.online()
        return bool(online) and all(hosted.hangs for hosted in online)

    def write_identity(self, *, node_id: int, cluster_id: str) -> None:
        """Writes the node's identity into the directories, once the controller has given it."""
        for hosted in self.online():
            with self.guard(hosted):
                hosted.directory.write_identity(node_id=node_id, cluster_id=cluster_id)

    def registered(self) -> None:
        """The controller has registered this incarnation of the node."""
        lineage = self._lineage
        if lineage is not None:
            lineage.registered()
            for hosted in self.online():
                with self.guard(hosted):
                    lineage.keep(hosted)

    def _note_failure_in_lineage(self, failed: HostedDirectory) -> None:
        if self._lineage is not None and self._lineage.took_part(failed):
            self._lineage.failed(self.online(), failed)

    # -- logs -----------------------------------------------------------------------------------

    def open_log(self, topic: TopicState, partition: int) -> tuple[PartitionLog, int]:
        """The log of a partition and the index of its directory; created if there is none.

        A new log goes to the directory that was chosen for it (`preferred`) if that is online, else
        to the one with the fewest logs. Raises StorageError if its files are unusable, if it may be
        in an offline directory, or if no directory is online.
        """
        name = partition_directory(
            topic.name, partition, topic_id=topic.topic_id, instance=topic.instance
        )
        chosen = self.preferred.take(topic.topic_id, partition)
        entry = self._logs.get(name)
        if entry is not None and entry.topic_id == NO_TOPIC_ID:
            entry.directory.write_topic_id(entry.log, topic.topic_id)
            entry.topic_id = topic.topic_id
        if entry is not None and entry.topic_id != topic.topic_id:
            # An earlier topic of this name, which was deleted while this node was away.
            self.rename_away(entry.log, entry.log.closing.set_aside)
            entry = self._take_double(name, topic)
        if entry is None:
            entry = self._create(name, topic, is_new=is_new(topic, partition), chosen=chosen)
        self.reconfigure(entry.log, topic)
        return entry.log, entry.directory.index

    def delete_log(self, log: PartitionLog) -> None:
        """Renames a log's directory now and removes it after file.delete.delay.ms."""
        self.rename_away(log, log.closing.delete)

    def rename_away(self, log: PartitionLog, rename: Callable[[str], None]) -> None:
        """Takes a log out of use; `rename` is its method that renames the directory."""
        entry = self.entry_of(log)
        if entry is None:
            return
        self._remove(entry)
        if entry.directory.names is not None:
            entry.directory.names.discard(entry.name)
        with self.guard(entry.directory):
            rename(_token())
        entry.directory.checkpoint_soon()

    def set_strays_aside(self, image: ClusterImage, node_id: NodeId) -> list[str]:
        """Renames stray logs, for which the image has no replica on this node; returns their paths.

        They are kept, because the metadata may be what is wrong (Kafka 4's
        `LogManager.isStrayReplica` keeps them, too). A log without a topic id that the image does
        not assign is stray as well.
        """
        self._doubles, doubles = [], self._doubles
        strays = [e for e in self._logs.values() if _is_stray(e, image, node_id)]
        for entry in strays:
            self.rename_away(entry.log, entry.log.closing.set_aside)
        for entry in doubles:
            with self.guard(entry.directory):
                entry.log.closing.set_aside(_token())
        return [entry.log.directory for entry in (*strays, *doubles)]

    def rehost(self, entry: HostedLog, target: HostedDirectory) -> None:
        """Notes that a log's files have moved to another directory (`moving.log_move`)."""
        name, source = entry.name, entry.directory
        assert self._logs[name] is entry
        self._logs[name] = HostedLog(entry.log, target, entry.topic_id)
        source.log_count -= 1
        target.log_count += 1
        if source.names is not None:
            source.names.discard(name)
        if target.names is not None:
            target.names.add(name)
        source.checkpoint_soon()

    def reconfigure(self, log: PartitionLog, topic: TopicState) -> None:
        """Applies a topic's changed configs, or changed broker configs."""
        config = LogConfig.of(
            self._configs.of(topic.configs, self._broker_configs),
            jitter_share=self._jitter_share(),
            producers=self._producer_limits,
        )
        if topic.internal and not config.compact:
            # Coordinators need all their records, so retention never applies to their topics.
            config = replace(config, delete_policy=False)
        log.reconfigure(config)

    def set_broker_configs(self, configs: Mapping[str, str]) -> None:
        """Sets the node's broker configs, topics' defaults; then `reconfigure` the logs."""
        self._broker_configs = configs
        expiration_ms = int(broker_number("producer.id.expiration.ms", configs))
        self._producer_limits = replace(self._producer_limits, expiration_ms=expiration_ms)
        self._default_config = LogConfig.default(self._producer_limits)

    def entry_of(self, log: PartitionLog) -> HostedLog | None:
        """A log and its directory; None if it is not among the usable ones."""
        entry = self._logs.get(os.path.basename(log.directory))
        return entry if entry is not None and entry.log is log else None

    def dir_index(self, log: PartitionLog) -> int:
        """The index of a log's directory."""
        entry = self.entry_of(log)
        assert entry is not None
        return entry.directory.index

    def flush(self, log: PartitionLog, done: Callable[[], None]) -> None:
        """Makes a log durable up to its present end, then calls `done` on the owner's thread.

        Runs on the directory's worker; calls that come meanwhile share one sync. `done` is never
        called if the directory fails; `on_dir_failure` is called instead.
        """
        entry = self.entry_of(log)
        if entry is not None:
            with self.guard(entry.directory):
                entry.directory.flush(entry, done)

    # -- failures and numbers -------------------------------------------------------------------

    def fail_dir(self, index: int, failure: LogDirFailure) -> None:
        """Takes a directory offline with all its logs; later calls for it do nothing."""
        hosted = self.dirs[index]
        if hosted.failure is not None:
            return
        hosted.failure = failure
        self._note_failure_in_lineage(hosted)
        for entry in self._in(hosted):
            self._remove(entry)
            entry.log.close(clean=False)
        self._on_dir_failure(index, failure)

    def online(self) -> list[HostedDirectory]:
        """The directories that work."""
        return [hosted for hosted in self.dirs if hosted.failure is None]

    def entries(self) -> list[HostedLog]:
        """All usable logs now."""
        return list(self._logs.values())

    def holds(self, entry: HostedLog) -> bool:
        """Whether a log is still among the usable ones."""
        return self._logs.get(entry.name) is entry

    def has_log(self, log: PartitionLog) -> bool:
        """Whether a log is among the usable ones."""
        return self.entry_of(log) is not None

    @contextmanager
    def guard(self, hosted: HostedDirectory) -> Iterator[None]:
        """Takes the directory offline if the block raises LogDirFailure."""
        try:
            yield
        except LogDirFailure as failure:
            self.fail_dir(hosted.index, failure)

    def checkpoint(self) -> None:
        """Writes recovery points, high watermarks and log starts, on the workers."""
        for hosted in self.online():
            with self.guard(hosted):
                hosted.checkpoint(self._checkpointed(hosted))

    def checkpoint_high_watermarks(self, hosted: HostedDirectory) -> None:
        """Writes a directory's high watermarks, on its worker, if any has moved."""
        hosted.checkpoint_high_watermarks(self._checkpointed(hosted))

    def keep_flushed(self, log: PartitionLog) -> None:
        """Makes a log and its recovery point durable up to the present end, on the worker, so
        that a start after kill -9 reads the log only from there.
        """
        entry = self.entry_of(log)
        if entry is not None:
            self.flush(log, entry.directory.checkpoint_soon)

    def checkpoint_cleaned(self, hosted: HostedDirectory) -> None:
        """Writes how far a directory's logs were compacted, on its worker."""
        hosted.checkpoint_cleaned(self._checkpointed(hosted))

    def stats(self) -> StorageStats:
        """Sums for metrics; visits all logs."""
        logs = [entry.log for entry in self._logs.values()]
        online = self.online()
        return StorageStats(
            logs=len(logs),
            segments=sum(len(log.extent.all) for log in logs),
            size_bytes=sum(log.extent.size_bytes for log in logs),
            records_not_synced=sum(
                log.log_end_offset - log.durability.recovery_point for log in logs
            ),
            open_files=sum(len(hosted.files) for hosted in online),
            open_maps=sum(len(hosted.maps) for hosted in online),
            handle_evictions=sum(h.files.evictions + h.maps.evictions for h in online),
            waiting_jobs=sum(hosted.waiting_jobs for hosted in online),
            waiting_deletions=sum(len(hosted.deletions) for hosted in online),
            unusable_logs=len(self.unusable),
            offline_dirs=len(self.dirs) - len(online),
            stalled_dirs=sum(hosted.stall.stalled for hosted in online),
        )

    def _create(
        self, name: str, topic: TopicState, *, is_new: bool, chosen: int | None
    ) -> HostedLog:
        if name in self.unusable and not self._set_unusable_aside(name, topic):
            raise self.unusable[name]
        for hosted in self.dirs:
            may_be_here = not is_new if hosted.names is None else name in hosted.names
            if hosted.failure is not None and may_be_here:
                # An existing log may be here; an empty one must not replace it.
                raise hosted.failure
        online = self.online()
        if not online:
            raise StorageError("no log directory is online")
        hosted = min(online, key=lambda one: (one.index != chosen, one.log_count))
        try:
            entry = hosted.create(name, topic_id=topic.topic_id, config=self._default_config)
        except LogDirFailure as failure:
            self.fail_dir(hosted.index, failure)
            raise
        self._add(entry)
        return entry

    def _add(self, entry: HostedLog) -> None:
        other = self._logs.get(entry.name)
        if other is not None and NO_TOPIC_ID != entry.topic_id != other.topic_id != NO_TOPIC_ID:
            # Created while this directory could not be read; the image decides which one counts.
            self._doubles.append(entry)
            return
        if other is not None:
            paths = f"{other.log.directory} and {entry.log.directory}"
            raise StorageError(f"the same partition is in two log directories: {paths}")
        self._logs[entry.name] = entry
        entry.directory.log_count += 1
        self.producers.adopt(entry.log.producers.states)

    def _set_unusable_aside(self, name: str, topic: TopicState) -> bool:
        """Sets aside a log that cannot be opened if it belongs to an earlier topic."""
        for hosted in self.online():
            if hosted.names is not None and name in hosted.names:
                with self.guard(hosted):
                    if hosted.topic_id_of(name) not in (NO_TOPIC_ID, topic.topic_id):
                        hosted.set_aside(name, _token())
                        del self.unusable[name]
                        return True
        return False

    def _take_double(self, name: str, topic: TopicState) -> HostedLog | None:
        for entry in self._doubles:
            if entry.name == name and entry.topic_id == topic.topic_id:
                self._doubles.remove(entry)
                self._add(entry)
                return entry
        return None

    def _remove(self, entry: HostedLog) -> None:
        del self._logs[entry.name]
        entry.directory.log_count -= 1
        self.producers.dismiss(entry.log.producers.states)

    def _in(self, hosted: HostedDirectory) -> list[HostedLog]:
        return [entry for entry in self._logs.values() if entry.directory is hosted]

    def _checkpointed(self, hosted: HostedDirectory) -> list[HostedLog]:
        return self._in(hosted) + [entry for entry, to in self.arriving if to is hosted]

    def _common_identity(self, opened: Sequence[HostedDirectory]) -> DirectoryIdentity:
        identities = [hosted.directory.identity for hosted in opened]
        known = [identity for identity in identities if identity.node_id >= 0]
        if len({(identity.node_id, identity.cluster_id) for identity in known}) > 1:
            paths = ", ".join(hosted.directory.path for hosted in opened)
            raise StorageError(f"log directories of different nodes or clusters: {paths}")
        return known[0] if known else DirectoryIdentity()


def _is_stray(entry: HostedLog, image: ClusterImage, node_id: NodeId) -> bool:
    return is_stray(entry.topic_id, entry.log.partition, image, node_id)


def _token() -> str:
    return os.urandom(_TOKEN_BYTES).hex()
