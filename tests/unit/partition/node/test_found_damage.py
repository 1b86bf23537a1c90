"""Damage that a read or the scrubber found is noted, reported, and given to the repairs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from highwater.partition.node.found_damage import FoundDamage
from highwater.partition.node.logs import NodeLogs
from highwater.partition.node.repairs import Repairs
from highwater.partition.storage.errors import (
    CorruptIndexError,
    DamagedBatchError,
    DamagedHeaderError,
)
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.scrubbing.scrubber import Damage
from highwater.runtime.logging import silent_logger
from tests.unit.partition.node.test_repairs import Node


class Found:
    """A node's logs and repairs, which record their calls."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.noted: list[tuple[int, int]] = []
        self.flushed: list[PartitionLog] = []
        self.given: list[str] = []
        self.found = FoundDamage(
            logs=cast(NodeLogs, self),
            repairs=cast(Repairs, self),
            replicas=node.plane.replicas.values,
            log=silent_logger(),
        )

    def note_damage(self, log: PartitionLog, damage: Damage) -> None:
        self.noted.append((damage.first, damage.end))

    def keep_flushed(self, log: PartitionLog) -> None:
        self.flushed.append(log)

    def damaged(self, replica: Any, *, unplaced: str = "") -> bool:
        assert replica is self.node.replica
        self.given.append(unplaced)
        return True


@pytest.fixture
async def found(tmp_path: Path) -> AsyncIterator[Found]:
    node = Node(tmp_path)
    yield Found(node)
    node.disk.close()


async def test_one_batch_is_noted_and_given_to_the_repairs(found: Found) -> None:
    error = DamagedBatchError("a checksum", file="file", position=70, first=2, end=4)
    assert found.found.by_read(found.node.replica, error)
    assert (found.noted, found.given, found.flushed) == ([(2, 4)], [""], [])


async def test_damage_without_an_end_closes_the_active_segment(found: Found) -> None:
    log = found.node.replica.log
    end, segments = log.log_end_offset, len(log.extent.all)
    error = DamagedHeaderError("no batch", file="file", position=0, first=6)
    assert found.found.by_read(found.node.replica, error)
    assert found.noted == [(6, end)]
    assert (len(log.extent.all), log.extent.all[-1].base_offset) == (segments + 1, end)
    assert found.flushed == [log]


async def test_nothing_is_closed_while_the_writer_thread_is_at_work(found: Found) -> None:
    found.node.replica.log.late_writer.writing = True
    error = DamagedHeaderError("no batch", file="file", position=0, first=6)
    assert found.found.by_read(found.node.replica, error)
    assert (found.noted, found.given) == ([], [])
    found.node.replica.log.late_writer.writing = False


async def test_damage_at_an_unknown_place_is_given_to_the_repairs(found: Found) -> None:
    assert found.found.by_read(found.node.replica, CorruptIndexError("somewhere"))
    assert (found.noted, found.given) == ([], ["somewhere"])
