"""NodeLogs: identity from the directories, operators' mistakes in one line, orderly close."""

import asyncio
from pathlib import Path

import pytest

from highwater.model.errors import UsageError
from highwater.partition.config import PartitionConfig
from highwater.partition.logs import NodeLogs
from highwater.partition.storage.errors import LogDirFailure
from highwater.runtime.clock import SystemClock
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner


class Member:
    """What NodeLogs needs of a Membership."""

    node_id = 7
    node_epoch = 31
    cluster_id = "cluster-of-the-test"


def make_logs(path: Path, node_id: int = -1) -> NodeLogs:
    failures: list[tuple[int, LogDirFailure]] = []
    return NodeLogs(
        PartitionConfig(log_dirs=(path,), node_id=node_id),
        clock=SystemClock(),
        loop=asyncio.get_running_loop(),
        log=silent_logger(),
        on_dir_failure=lambda index, failure: failures.append((index, failure)),
    )


async def run_once(logs: NodeLogs) -> None:
    """Opens, registers and closes, as a node's whole life."""
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
    assert identity.clean_shutdown
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


async def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(UsageError, match="cannot make log directory"):
        make_logs(tmp_path / "file" / "log")
