"""Damaged logs are kept under another name, also after a restart, until their removal."""

import asyncio
from pathlib import Path

from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId, TopicId
from highwater.partition.storage.directory.damaged_logs import DamagedLogs
from highwater.partition.storage.names import damaged_directory, parse_damaged_directory
from tests.support.cleaned_node import CleanedNode
from tests.support.log_batches import append, make_batch

TOPIC = TopicState(
    topic_id=TopicId(b"t" * 16), instance=InstanceId("default"), name="orders", partitions=()
)


def kept(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("*-damaged")]


async def test_a_log_is_set_aside_and_removed_after_a_restart(tmp_path: Path) -> None:
    node = CleanedNode(tmp_path)
    damaged = DamagedLogs(node.manager)
    log = node.log(TOPIC)
    append(log, make_batch(), epoch=0)
    damaged.set_aside(log)
    (name,) = kept(tmp_path)
    assert parse_damaged_directory(name) == "orders-0"
    again = node.log(TOPIC)
    assert (again is not log, again.log_end_offset) == (True, 0)
    await node.settle()
    node.close()
    node = CleanedNode(tmp_path)
    assert kept(tmp_path) == [name]
    damaged = DamagedLogs(node.manager)
    damaged.find()
    assert len(damaged) == 1
    assert damaged.remove("orders-1") == []
    assert damaged.remove("orders-0") == [str(tmp_path / name)]
    assert not damaged
    node.manager.dirs[0].remover.remove_due()
    async with asyncio.timeout(10):
        while kept(tmp_path):
            await asyncio.sleep(0.01)
    node.close()


def test_names() -> None:
    token = "0" * 32
    assert damaged_directory("a.b-3", token) == f"a.b-3.{token}-damaged"
    assert parse_damaged_directory(f"a.b-3.{token}-damaged") == "a.b-3"
    for other in (f"a-3.{token}-stray", "a-3", "a.x-damaged", f"a-3{token}-damaged"):
        assert parse_damaged_directory(other) is None
