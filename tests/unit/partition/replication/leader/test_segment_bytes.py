"""Bytes of a slice, and of a deleted one."""

import os

import pytest

from highwater.partition.replication.leader import segment_bytes as module
from highwater.partition.replication.leader.segment_bytes import read_in_memory, read_slice
from highwater.partition.storage.errors import LogDirFailure
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import stored
from tests.unit.partition.replication.leader_side import Leader


@pytest.fixture
def leader(tmp_path):
    return Leader(tmp_path)


def test_a_slice_is_read_whole_and_not_kept_open(leader):
    replica = leader.add_led()
    leader.append(make_batch(), make_batch())
    found = replica.log.reader.read(0, 1 << 20, end_offset=2)
    assert read_slice(found) == stored(replica)
    assert found.segment.pins == 0
    os.ftruncate(found.segment.open(), found.length - 1)
    with pytest.raises(LogDirFailure, match=f"{found.length - 1} of {found.length}"):
        read_slice(found)
    assert found.segment.pins == 0


def test_only_cached_bytes_are_read(leader, monkeypatch):
    replica = leader.add_led()
    leader.append(make_batch(), make_batch())
    found = replica.log.reader.read(0, 1 << 20, end_offset=2)
    assert bytes(read_in_memory(found)) == stored(replica)
    monkeypatch.setattr(module, "read_cached", lambda *_args: found.length - 1)
    assert read_in_memory(found) is None
    assert found.segment.pins == 0


def test_a_failed_disk_is_reported(leader, monkeypatch):
    replica = leader.add_led()
    leader.append(make_batch())
    found = replica.log.reader.read(0, 1 << 20, end_offset=1)

    def fail(*_args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(module, "read_cached", fail)
    with pytest.raises(LogDirFailure):
        read_in_memory(found)
    assert found.segment.pins == 0
