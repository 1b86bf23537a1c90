"""Transaction indexes made from the log alone, from several beginnings."""

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.recovery.transaction_recovery import rebuild_transaction_indexes
from tests.support.log_batches import append, make_batch, open_log
from tests.support.transactional_logs import end, indexed, write

CONFIG = LogConfig(index_interval_bytes=50)


@pytest.fixture
def log(tmp_path):
    log = open_log(tmp_path / "topic-0", CONFIG)
    write(log, 5)
    write(log, 6)
    append(log, make_batch())
    end(log, 6, commit=False)
    log.roll()
    write(log, 7)
    end(log, 5, commit=False)
    write(log, 5)
    log.roll()
    end(log, 5, commit=True)
    end(log, 7, commit=False)
    write(log, 8)
    return log


def rebuild(log, first, stop=None):
    rebuild_transaction_indexes(FileSystem(), log.directory, log.extent.all, first, stop=stop)


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("snapshots", [True, False])
def test_the_same_entries(log, tmp_path, first, snapshots):
    if not snapshots:
        for file in (tmp_path / "topic-0").glob("*.snapshot"):
            file.unlink()
    before = indexed(log)
    assert [len(entries) for entries in before] == [1, 1, 1]
    for segment in log.extent.all[first:]:
        segment.transactions.reset()
    rebuild(log, first)
    assert indexed(log) == before


def test_one_segment_alone(log):
    before = indexed(log)
    for segment in log.extent.all:
        segment.transactions.reset()
    rebuild(log, 1, stop=2)
    assert indexed(log) == [[], before[1], []]


def test_snapshots_that_cannot_be_read_are_passed_over(log, tmp_path):
    before = indexed(log)
    for file in (tmp_path / "topic-0").glob("*.snapshot"):
        file.write_bytes(b"?")
    rebuild(log, 1)
    assert indexed(log) == before
