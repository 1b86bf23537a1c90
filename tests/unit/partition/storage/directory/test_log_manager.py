"""LogManager with real directories; callbacks to the owner run when the test drains them."""

import errno
import os
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.model.cluster import ClusterImage, PartitionState, TopicState
from highwater.model.ids import InstanceId, LeaderEpoch, NodeId, TopicId
from highwater.partition.core.producer_budget import ProducerLimits
from highwater.partition.storage.directory.handle_limits import HandleLimits
from highwater.partition.storage.directory.log_maintenance import (
    LogMaintenance,
    MaintenanceIntervals,
)
from highwater.partition.storage.directory.log_manager import LogManager
from highwater.partition.storage.errors import (
    LogDirFailure,
    LogDirInUseError,
    StorageError,
)
from highwater.partition.storage.filesystem import FileSystem
from highwater.runtime.logging import Logger, silent_logger
from tests.support.log_batches import ManualClock, append, append_info, make_batch, read_all
from tests.unit.partition.storage.scrubbing.test_scrub import flip

LIMITS = HandleLimits(files=100, maps=50)


def topic(
    name: str = "orders",
    number: int = 1,
    *,
    configs: dict[str, str] | None = None,
    internal: bool = False,
    instance: str = "default",
) -> TopicState:
    return TopicState(
        topic_id=TopicId(bytes([number]) * 16),
        instance=InstanceId(instance),
        name=name,
        partitions=(),
        configs=configs or {},
        internal=internal,
    )


def placed(name: str, number: int, *, replicas: tuple[tuple[int, ...], ...]) -> TopicState:
    """A new topic whose replicas are on these nodes."""
    partitions = tuple(
        PartitionState(
            partition=partition,
            leader=NodeId(nodes[0]),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=0,
            replicas=tuple(NodeId(n) for n in nodes),
            isr=tuple(NodeId(n) for n in nodes),
        )
        for partition, nodes in enumerate(replicas)
    )
    return replace(topic(name, number), partitions=partitions)


class Node:
    """A manager, its clock, and the loop that it posts to."""

    def __init__(
        self,
        *dirs: Path,
        filesystems: dict[str, FileSystem] | None = None,
        producer_limits: ProducerLimits | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.failures: list[tuple[int, LogDirFailure]] = []
        made = filesystems or {}
        self.manager = LogManager(
            dirs,
            clock=self.clock,
            post=self.posted.put,
            on_dir_failure=lambda index, failure: self.failures.append((index, failure)),
            limits=LIMITS,
            make_filesystem=lambda path: made.get(path) or FileSystem(),
            producer_limits=producer_limits,
        )
        self.identity = self.manager.open()
        self.manager.start()

    def drain(self, until: Callable[[], bool] = lambda: True, timeout_s: float = 10) -> None:
        """Runs posted callbacks until all workers have finished their jobs and the condition
        holds."""
        deadline = time.monotonic() + timeout_s
        waiting = {hosted.index for hosted in self.manager.online()}
        for hosted in self.manager.online():
            hosted.run_later(lambda: None, lambda index=hosted.index: waiting.discard(index))
        while time.monotonic() < deadline:
            waiting &= {hosted.index for hosted in self.manager.online()}
            if not waiting and until():
                return
            try:
                self.posted.get(timeout=0.01)()
            except queue.Empty:
                continue
        raise AssertionError("the condition did not come true in time")

    def maintenance(self, log: Logger | None = None) -> LogMaintenance:
        return LogMaintenance(
            self.manager,
            clock=self.clock,
            intervals=MaintenanceIntervals(),
            log=log or silent_logger(),
        )

    def run(self, steps: Iterator[None]) -> None:
        for _ in steps:
            pass
        self.drain()


def test_records_are_there_after_a_clean_stop(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    assert node.identity.node_id == -1
    node.manager.write_identity(node_id=3, cluster_id="c" * 22)
    log, index = node.manager.open_log(topic(), 2)
    assert index == 0
    append(log, make_batch(), make_batch(), epoch=1)
    log.stored_high_watermark = 1
    assert node.manager.close(node_epoch=77) == []
    assert (tmp_path / "a" / ".kafka_cleanshutdown").read_text() == (
        '{"version":0,"brokerEpoch":77}'
    )

    node = Node(tmp_path / "a")
    assert (node.identity.node_id, node.identity.cluster_id) == (3, "c" * 22)
    assert node.manager.clean
    assert node.manager.previous_node_epoch == 77
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    log, _ = node.manager.open_log(topic(), 2)
    assert (log.log_end_offset, log.stored_high_watermark, log.recovered_segments) == (2, 1, 0)
    node.manager.close()


def test_a_crash_is_not_clean_and_recovers_from_the_checkpoint(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(), 0)
    append(log, make_batch(), epoch=0)
    log.roll()
    append(log, make_batch())
    log.stored_high_watermark = 2
    node.drain(lambda: log.durability.recovery_point == 1)
    node.run(node.maintenance().checkpoints())
    append(log, make_batch())
    for hosted in node.manager.dirs:
        hosted.directory.close()  # As the kernel does for a killed process.

    node = Node(tmp_path / "a")
    assert not node.manager.clean
    assert node.manager.previous_node_epoch == -1
    log, _ = node.manager.open_log(topic(), 0)
    assert (log.log_end_offset, log.recovered_segments, log.stored_high_watermark) == (3, 1, 2)
    node.manager.close()


def test_new_logs_go_to_the_emptiest_directory_and_are_found_again(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    placed = [node.manager.open_log(topic(), partition)[1] for partition in range(7)]
    assert placed == [0, 1, 2, 0, 1, 2, 0]
    node.manager.delete_log(node.manager.open_log(topic(), 1)[0])
    node.manager.delete_log(node.manager.open_log(topic(), 4)[0])
    assert [node.manager.open_log(topic("other", 2), n)[1] for n in range(2)] == [1, 1]
    node.manager.close()
    node = Node(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert [node.manager.open_log(topic(), n)[1] for n in (0, 2, 3, 5, 6)] == [0, 2, 0, 2, 0]
    node.manager.close()


def test_directories_are_named_as_kafka_does_or_by_topic_id(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    node.manager.open_log(topic("my-topic"), 12)
    node.manager.open_log(topic("secret", 255, instance="tenant"), 0)
    assert {path.name for path in (tmp_path / "a").iterdir() if path.is_dir()} == {
        "my-topic-12",
        "_____________________w-0",
    }
    node.manager.close()
    node = Node(tmp_path / "a")
    node.manager.open_log(topic("my-topic"), 12)
    node.manager.open_log(topic("secret", 255, instance="tenant"), 0)
    assert node.manager.stats().logs == 2
    node.manager.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", tmp_path / "b")
    with pytest.raises(LogDirInUseError, match="in use"):
        Node(tmp_path / "c", tmp_path / "b")
    node.manager.close()
    Node(tmp_path / "c", tmp_path / "b").manager.close()


def test_directories_of_different_nodes_are_refused(tmp_path: Path) -> None:
    for number, name in enumerate("ab"):
        node = Node(tmp_path / name)
        node.manager.write_identity(node_id=number, cluster_id="x")
        node.manager.close()
    with pytest.raises(StorageError, match="different nodes"):
        Node(tmp_path / "a", tmp_path / "b")
    Node(tmp_path / "a").manager.close()


def test_a_recreated_topic_does_not_get_the_old_ones_records(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=1), 0)
    append(log, make_batch(), epoch=0)
    node.manager.close()
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(number=2), 0)
    assert log.log_end_offset == 0
    [kept] = (tmp_path / "a").glob("orders-0.*-stray")
    assert (kept / "00000000000000000000.log").stat().st_size > 0
    node.manager.close()


def image(*topics: TopicState) -> ClusterImage:
    return ClusterImage(revision=9, cluster_id="c", topics={t.topic_id: t for t in topics})


def test_stray_logs_are_set_aside_and_kept(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", tmp_path / "b")
    here = placed("orders", 1, replicas=((3,), (3,), (4,)))
    gone = placed("gone", 2, replicas=((3,),))
    for state in (here, gone):
        for partition in range(len(state.partitions)):
            append(node.manager.open_log(state, partition)[0], make_batch(), epoch=0)
    node.manager.close()
    node = Node(tmp_path / "a", tmp_path / "b")
    kept = node.manager.set_strays_aside(image(here), NodeId(3))
    names = sorted(Path(path).name.split(".")[0] for path in kept)
    assert names == ["gone-0", "orders-2"], "no topic, and a partition of another node"
    assert all(path.endswith("-stray") and Path(path).is_dir() for path in kept)
    assert node.manager.stats().logs == 2
    assert node.manager.set_strays_aside(image(here), NodeId(3)) == []
    node.drain()
    # A new topic of that name begins empty.
    log, _ = node.manager.open_log(placed("gone", 5, replicas=((3,),)), 0)
    assert log.log_end_offset == 0
    node.manager.close()
    node = Node(tmp_path / "a", tmp_path / "b")
    assert node.manager.stats().logs == 3
    assert all(Path(path).is_dir() for path in kept)
    node.manager.close()


def test_a_damaged_log_of_a_former_topic_makes_way(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    append(node.manager.open_log(topic(number=1), 0)[0], make_batch(), epoch=0)
    node.manager.close()
    (tmp_path / "a" / "orders-0" / "00000000000000000000.log.swap").write_bytes(b"")
    node = Node(tmp_path / "a")
    with pytest.raises(StorageError):
        node.manager.open_log(topic(number=1), 0)
    assert node.manager.open_log(topic(number=2), 0)[0].log_end_offset == 0
    assert len(list((tmp_path / "a").glob("orders-0.*-stray"))) == 1
    node.manager.close()


def test_deleted_logs_are_removed_after_the_delay(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(configs={"file.delete.delay.ms": "1000"}), 0)
    node.manager.delete_log(log)
    maintenance = node.maintenance()
    node.clock.now_ms += 999
    node.run(maintenance.removals())
    assert len(list((tmp_path / "a").glob("*-delete"))) == 1
    assert node.manager.stats().waiting_deletions == 1
    node.clock.now_ms += 1
    node.run(maintenance.removals())
    node.drain(lambda: list((tmp_path / "a").glob("*-delete")) == [])
    node.manager.close()


def test_pending_removals_are_done_at_the_next_start(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    node.manager.delete_log(node.manager.open_log(topic(), 0)[0])
    node.manager.close()
    node = Node(tmp_path / "a")
    node.run(node.maintenance().removals())
    node.drain(lambda: list((tmp_path / "a").glob("*-delete")) == [])
    node.manager.close()


# ---- failures ----


def broken(filesystem: FileSystem, *names: str) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for name in names:
        setattr(filesystem, name, fail)


@pytest.mark.parametrize("call", ["fdatasync", "open"])
def test_a_directory_that_fails_takes_only_its_logs_offline(tmp_path: Path, call: str) -> None:
    disk = FileSystem()
    node = Node(tmp_path / "a", tmp_path / "b", filesystems={str(tmp_path / "b"): disk})
    sound, _ = node.manager.open_log(topic(), 0)
    doomed, index = node.manager.open_log(topic(), 1)
    assert index == 1
    append(sound, make_batch(), epoch=0)
    append(doomed, make_batch(), epoch=0)
    synced: list[str] = []
    broken(disk, call)
    node.manager.flush(sound, lambda: synced.append("sound"))
    node.manager.flush(doomed, lambda: synced.append("doomed"))
    node.drain(lambda: bool(node.failures) and bool(synced))
    assert [index for index, _ in node.failures] == [1]
    assert synced == ["sound"]
    assert node.manager.stats().offline_dirs == 1
    assert not node.manager.all_dirs_failed
    append(sound, make_batch())
    # The lost log is not created elsewhere; a new partition goes to the working directory.
    with pytest.raises(LogDirFailure):
        node.manager.open_log(topic(), 1)
    assert node.manager.open_log(topic(), 2)[1] == 0
    [failure] = node.manager.close(node_epoch=5)
    assert failure is node.failures[0][1]
    assert (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "b" / ".kafka_cleanshutdown").exists()


def test_a_directory_that_cannot_be_read_at_the_start(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", tmp_path / "b")
    for partition in range(2):
        append(node.manager.open_log(topic(), partition)[0], make_batch(), epoch=0)
    node.manager.close()
    disk = FileSystem()
    broken(disk, "stat")
    node = Node(tmp_path / "a", tmp_path / "b", filesystems={str(tmp_path / "b"): disk})
    assert [index for index, _ in node.failures] == [1]
    log, _ = node.manager.open_log(topic(), 0)
    assert len(read_all(log)) == 1
    with pytest.raises(LogDirFailure):
        node.manager.open_log(topic(), 1)
    node.manager.close()


def test_a_path_that_cannot_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    node = Node(tmp_path / "file" / "a", tmp_path / "b")
    assert [index for index, _ in node.failures] == [0]
    # Its content is unknown, so no log is created that it may have.
    with pytest.raises(LogDirFailure):
        node.manager.open_log(topic(), 0)
    node.manager.close()
    node = Node(tmp_path / "file" / "a")
    assert node.manager.all_dirs_failed
    node.manager.close()


def test_new_partitions_are_made_although_a_directory_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    new = placed("new", 7, replicas=((3,), (3,)))
    node = Node(tmp_path / "file" / "a", tmp_path / "b")
    assert node.manager.open_log(new, 0)[1] == 1
    # It had a leader before, so it may be in the directory that cannot be read.
    moved = replace(new.partitions[1], leader_epoch=LeaderEpoch(1))
    with pytest.raises(LogDirFailure):
        node.manager.open_log(replace(new, partitions=(new.partitions[0], moved)), 1)
    node.manager.close()


def test_two_logs_of_one_name_after_a_directory_is_repaired(tmp_path: Path) -> None:
    """A topic was deleted and recreated while the directory of its first log was missing."""
    first, second = placed("orders", 1, replicas=((3,),)), placed("orders", 2, replicas=((3,),))
    for directory, state, batches in (("a", first, 1), ("b", second, 2)):
        node = Node(tmp_path / directory)
        for _ in range(batches):
            append(node.manager.open_log(state, 0)[0], make_batch(), epoch=0)
        node.manager.close()
    for dirs in (("a", "b"), ("b", "a")):
        node = Node(*(tmp_path / name for name in dirs))
        assert node.manager.close() == [], "it may stop before it knows which one counts"
    node = Node(tmp_path / "a", tmp_path / "b")
    log, _ = node.manager.open_log(second, 0)
    assert log.log_end_offset == 2
    assert node.manager.set_strays_aside(image(second), NodeId(3)) == []
    assert len(list((tmp_path / "a").glob("orders-0.*-stray"))) == 1
    node.manager.close()
    next((tmp_path / "a").glob("orders-0.*-stray")).rename(tmp_path / "a" / "orders-0")
    node = Node(tmp_path / "b", tmp_path / "a")
    assert node.manager.open_log(second, 0)[0].log_end_offset == 2
    [kept] = node.manager.set_strays_aside(image(second), NodeId(3))
    assert kept.startswith(str(tmp_path / "a" / "orders-0."))
    node.manager.close()


def test_a_damaged_log_is_unusable_and_the_others_are_not(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    for partition in range(2):
        append(node.manager.open_log(topic(), partition)[0], make_batch(), epoch=0)
    node.manager.close()
    (tmp_path / "a" / "orders-0" / "00000000000000000000.log.swap").write_bytes(b"")
    node = Node(tmp_path / "a")
    assert set(node.manager.unusable) == {"orders-0"}
    with pytest.raises(StorageError):
        node.manager.open_log(topic(), 0)
    assert node.manager.open_log(topic(), 1)[0].log_end_offset == 1
    assert node.failures == []
    node.manager.close()


def test_a_failure_reported_twice_is_handled_once(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    failure = LogDirFailure("x", OSError(5, "y"))
    node.manager.fail_dir(0, failure)
    node.manager.fail_dir(0, failure)
    assert node.failures == [(0, failure)]
    assert node.manager.all_dirs_failed
    node.manager.close()


# ---- maintenance ----


def test_flushes_share_syncs_and_answer_everybody(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(configs={"flush.messages": "1"}), 0)
    assert log.durability.flush_at_offset == 1
    points: list[int] = []
    for _ in range(20):
        append(log, make_batch(), epoch=0)
        end = log.log_end_offset
        node.manager.flush(log, lambda end=end: points.append(log.durability.recovery_point - end))
    node.drain(lambda: len(points) == 20)
    assert min(points) >= 0, "an answer came before its records were on disk"
    assert log.durability.recovery_point == 20
    node.manager.flush(log, lambda: points.append(0))
    assert len(points) == 21, "there was nothing to sync"
    node.manager.close()


def test_flush_ms(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    timed, _ = node.manager.open_log(topic(configs={"flush.ms": "1000"}), 0)
    other, _ = node.manager.open_log(topic("other", 2), 0)
    for log in (timed, other):
        append(log, make_batch(), epoch=0)
    maintenance = node.maintenance()
    node.clock.now_ms += 999
    node.run(maintenance.flushes())
    assert timed.durability.recovery_point == 0
    node.clock.now_ms += 1
    node.run(maintenance.flushes())
    assert timed.durability.recovery_point == 1
    assert other.durability.recovery_point == 0
    node.manager.close()


def test_retention_spares_internal_topics(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    configs = {"retention.ms": "1000"}
    plain, _ = node.manager.open_log(topic(configs=configs), 0)
    internal, _ = node.manager.open_log(
        topic("__consumer_offsets", 2, configs=configs, internal=True), 0
    )
    for log in (plain, internal):
        append(log, make_batch(timestamps=(5,)), epoch=0)
        log.stored_high_watermark = 1
    node.run(node.maintenance().retention())
    assert (plain.log_start_offset, internal.log_start_offset) == (1, 0)
    node.manager.close()


def test_a_log_that_is_deleted_during_a_pass_is_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    logs = [node.manager.open_log(topic(), partition)[0] for partition in range(60)]
    steps = node.maintenance().retention()
    next(steps)
    node.manager.delete_log(logs[-1])
    node.run(steps)
    assert node.failures == []
    node.manager.close()


def test_broker_configs_are_topics_defaults(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(), 0)
    node.manager.set_broker_configs({"log.segment.bytes": "2000000"})
    node.manager.reconfigure(log, topic())
    assert log.config.segment_bytes == 2_000_000
    node.manager.reconfigure(log, topic(configs={"segment.bytes": "3000000"}))
    assert log.config.segment_bytes == 3_000_000
    node.manager.close()


@pytest.mark.parametrize(
    ("topics", "brokers", "reserved"),
    [
        ({}, {}, []),
        ({"preallocate": "true"}, {}, [1 << 20]),
        ({}, {"log.preallocate": "true"}, [1 << 20]),
        ({"preallocate": "false"}, {"log.preallocate": "true"}, []),
    ],
)
def test_preallocate_reserves_a_whole_segment_when_it_begins(
    tmp_path: Path, topics: dict[str, str], brokers: dict[str, str], reserved: list[int]
) -> None:
    files = FileSystem()
    calls: list[int] = []
    files.fallocate = lambda _fd, _mode, _offset, length: calls.append(length)
    node = Node(tmp_path / "a", filesystems={str(tmp_path / "a"): files})
    node.manager.set_broker_configs({"log.segment.bytes": str(1 << 20), **brokers})
    log, _ = node.manager.open_log(topic(configs=topics), 0)
    for _ in range(2):
        append(log, make_batch(), make_batch(), epoch=0)
    assert calls == reserved
    log.roll()
    append(log, make_batch(), epoch=0)
    assert calls == 2 * reserved
    node.manager.close()


def test_stats(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(), 0)
    append(log, make_batch(), make_batch(), epoch=0)
    stats = node.manager.stats()
    assert (stats.logs, stats.segments, stats.size_bytes) == (1, 1, log.extent.size_bytes)
    assert stats.records_not_synced == 2
    assert stats.open_files == 1
    node.manager.close()


def test_a_stalled_directory_is_written_by_its_own_thread(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", tmp_path / "b")
    log, _ = node.manager.open_log(topic(), 0)
    append(log, make_batch(), epoch=0)
    node.manager.dirs[0].stall.slow_write()
    assert log.stall.stalled
    assert node.manager.stats().stalled_dirs == 1
    batch = make_batch(base_offset=1)
    done: list[int] = []
    info = append_info([batch], [1], next_offset=2, max_timestamp=(1000, 1), epoch=0)
    log.late_writer.append(info, lambda: done.append(1))
    assert log.late_writer.writing
    node.drain(lambda: bool(done))
    assert not log.late_writer.writing
    assert len(read_all(log)) == 2
    other, _ = node.manager.open_log(topic(), 1)
    assert not other.stall.stalled
    node.manager.close()


def test_a_damaged_segment_does_not_end_the_retention_of_all(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    day_ms = 24 * 3600 * 1000
    stamped = make_batch(timestamps=(node.clock.now_ms,))
    for partition in range(2):
        log, _ = node.manager.open_log(topic(), partition)
        append(log, stamped, stamped, stamped, epoch=0)
        log.roll()
        append(log, make_batch(timestamps=(node.clock.now_ms + 30 * day_ms,)))
    node.manager.close()
    sealed = tmp_path / "a" / "orders-0" / f"{0:020d}.log"
    flip(str(sealed), 16)  # The magic of a batch.
    written_s = node.clock.now_ms // 1000 + 10 * day_ms // 1000
    os.utime(sealed, (written_s, written_s))

    node = Node(tmp_path / "a")
    logs = [node.manager.open_log(topic(), partition)[0] for partition in range(2)]
    for log in logs:
        log.stored_high_watermark = log.log_end_offset
    for days, starts in ((8, [0, 3]), (16, [0, 3]), (18, [3, 3])):
        node.clock.now_ms = 1_700_000_000_000 + days * day_ms
        node.run(node.maintenance().retention())
        assert [log.log_start_offset for log in logs] == starts
    node.manager.close()
