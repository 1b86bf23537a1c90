"""NodeLogs: identity from the directories, operator errors in one line, orderly close."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.model.cluster import TopicState
from highwater.model.errors import UsageError
from highwater.model.ids import LeaderEpoch, NodeId
from highwater.partition.config import PartitionConfig
from highwater.partition.node.logs import NodeLogs
from highwater.partition.storage.errors import LogDirFailure
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_of, topic_state
from tests.support.log_batches import append, make_batch


class Member:
    """The part of a Membership that NodeLogs needs."""

    node_id = 7
    node_epoch = 31
    cluster_id = "cluster-of-the-test"


def make_logs(
    *paths: Path, node_id: int = -1, failures: list[int] | None = None, **settings: int
) -> NodeLogs:
    def failed(index: int, _failure: LogDirFailure) -> None:
        if failures is not None:
            failures.append(index)

    return NodeLogs(
        PartitionConfig(log_dirs=paths, node_id=node_id, **settings),  # type: ignore[arg-type]
        clock=SystemClock(),
        loop=asyncio.get_running_loop(),
        log=silent_logger(),
        on_dir_failure=failed,
        on_damage=lambda _log, _damage: None,
    )


def new_topic() -> TopicState:
    """One partition on node 1, which no other node ever led."""
    topic = topic_state("orders", [(1,)])
    return replace(
        topic,
        partitions=tuple(
            replace(state, leader_epoch=LeaderEpoch(0), partition_epoch=0)
            for state in topic.partitions
        ),
    )


async def run_once(logs: NodeLogs) -> None:
    """Opens, registers and closes, as a node does in its life."""
    logs.open()
    tasks = TaskOwner(lambda _name, _error: None)
    logs.start(tasks)
    logs.registered(Member())  # type: ignore[arg-type]
    await tasks.close(timeout_s=5)
    logs.close()


async def test_a_first_start_has_no_identity(tmp_path: Path) -> None:
    logs = make_logs(tmp_path / "new")
    identity = logs.open()
    assert identity.node_id == -1
    assert identity.cluster_id == ""
    logs.close()


async def test_the_second_start_knows_the_first(tmp_path: Path) -> None:
    await run_once(make_logs(tmp_path))
    logs = make_logs(tmp_path)
    identity = logs.open()
    assert identity.node_id == Member.node_id
    assert identity.cluster_id == Member.cluster_id
    assert logs.manager.clean
    assert identity.previous_node_epoch == Member.node_epoch
    logs.close()


async def test_another_node_id_is_refused(tmp_path: Path) -> None:
    await run_once(make_logs(tmp_path))
    with pytest.raises(UsageError, match="belong to node 7"):
        make_logs(tmp_path, node_id=8).open()


async def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    first = make_logs(tmp_path)
    first.open()
    with pytest.raises(UsageError):
        make_logs(tmp_path).open()
    first.close()


async def test_without_any_usable_directory_the_operator_is_told_in_one_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(UsageError) as caught:
        make_logs(tmp_path / "file" / "a", tmp_path / "file").open()
    text = str(caught.value)
    assert text.startswith("no log directory can be used: ")
    assert text.count(str(tmp_path / "file")) >= 2
    assert "\n" not in text


async def test_a_bad_directory_takes_only_its_partitions_offline(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    failures: list[int] = []
    logs = make_logs(tmp_path / "file" / "a", tmp_path / "b", failures=failures)
    logs.open()
    assert logs.failed_dirs == (0,)
    assert not logs.all_dirs_failed
    tasks = TaskOwner(lambda _name, _error: None)
    logs.start(tasks)
    assert failures == [0]
    _, index = logs.open_log(new_topic(), 0)
    assert index == 1
    await tasks.close(timeout_s=5)
    logs.close()
    logs = make_logs(tmp_path / "a", tmp_path / "b")
    logs.open()
    assert logs.failed_dirs == ()
    assert logs.open_log(new_topic(), 0)[1] == 1
    logs.close()


async def test_high_watermarks_are_written_more_often_than_recovery_points(tmp_path: Path) -> None:
    intervals = make_logs(tmp_path)._maintenance._intervals
    assert (intervals.high_watermark_ms, intervals.checkpoint_ms) == (5_000, 60_000), "as in Kafka"
    logs = make_logs(tmp_path, high_watermark_checkpoint_interval_ms=100)
    logs.open()
    tasks = TaskOwner(lambda _name, _error: None)
    logs.start(tasks)
    log, _ = logs.open_log(new_topic(), 0)
    append(log, make_batch(), make_batch(), epoch=0)
    log.stored_high_watermark = 2
    told = tmp_path / "replication-offset-checkpoint"
    async with asyncio.timeout(10):
        while not (told.exists() and told.read_text().endswith("orders 0 2\n")):
            await asyncio.sleep(0.01)
    assert not (tmp_path / "recovery-point-offset-checkpoint").exists()
    await tasks.close(timeout_s=5)
    logs.close()


def strays(directory: Path) -> list[str]:
    return [path.name.split(".")[0] for path in directory.glob("*-stray")]


async def test_stray_logs_are_reported(tmp_path: Path) -> None:
    logs = make_logs(tmp_path)
    logs.open()
    logs.start(TaskOwner(lambda _name, _error: None))
    logs.open_log(new_topic(), 0)
    logs.set_strays_aside(image_of(topics=[new_topic()]), NodeId(1))
    assert strays(tmp_path) == []
    logs.set_strays_aside(image_of(), NodeId(1))
    assert strays(tmp_path) == ["orders-0"]
    logs.close()


async def test_broker_configs_reach_logs_and_cleaner_while_the_node_runs(tmp_path: Path) -> None:
    settings = {"producer_id_expiration_ms": 7_000, "log_cleaner_backoff_ms": 700}
    logs = make_logs(tmp_path / "a", **settings)
    logs.open()
    log, _ = logs.open_log(new_topic(), 0)
    assert log.config.producer_id_expiration_ms == 7_000
    assert logs.cleaner.settings.backoff_ms == 700
    logs.set_broker_configs({
        "producer.id.expiration.ms": "9000",
        "log.cleaner.backoff.ms": "900",
        "log.cleaner.io.max.bytes.per.second": "1000000",
    })  # fmt: skip
    logs.reconfigure(log, new_topic())
    assert log.config.producer_id_expiration_ms == 9_000
    assert (logs.cleaner.settings.backoff_ms, logs.cleaner.settings.io_bytes_per_s) == (900, 10**6)
    logs.close()
