"""Truncation, deletion, retention; the model test in tests/property does the rest."""

from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import (
    LogDirFailure,
)
from highwater.partition.storage.log.producer_tail import ENTRIES_MIN
from highwater.partition.storage.segment.segment import TAIL_BYTES, TAIL_ENTRIES
from tests.support.log_batches import (
    append,
    make_batch,
    open_log,
)


def test_a_directory_that_cannot_be_made_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LogDirFailure):
        open_log(tmp_path / "file" / "topic-0")


def test_new_configs_apply_from_the_next_append(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), make_batch(), epoch=0)
    log.reconfigure(LogConfig(segment_bytes=log.extent.size_bytes, flush_messages=1))
    assert log.durability.flush_at_offset == 1
    append(log, make_batch())
    assert len(log.extent.all) == 2


def test_shorten_tail_writes_indexes_and_producers_only_if_there_is_much(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0", LogConfig(index_interval_bytes=100))
    recent = tmp_path / "topic-0" / ".highwater_producers"
    index = tmp_path / "topic-0" / f"{0:020d}.index"
    sequence = 0
    while log.extent.active.index.waiting < TAIL_ENTRIES:
        log.shorten_tail()
        assert not index.exists()
        append(
            log,
            make_batch(producer_id=1, producer_epoch=0, base_sequence=sequence, value=b"x" * 50),
            epoch=0,
        )
        sequence += 1
    log.shorten_tail()
    assert index.stat().st_size == TAIL_ENTRIES * 8
    assert not recent.exists()
    while len(log.extent.active.index) < ENTRIES_MIN:
        append(
            log,
            make_batch(producer_id=1, producer_epoch=0, base_sequence=sequence, value=b"x" * 50),
        )
        sequence += 1
    log.shorten_tail()
    written = recent.stat().st_mtime_ns
    log.shorten_tail()
    assert recent.stat().st_mtime_ns == written
    append(log, make_batch(value=b"x" * TAIL_BYTES))
    append(log, make_batch(value=b"x" * TAIL_BYTES))
    log.shorten_tail()
    assert log.extent.active.index.waiting == 0
    log.close(clean=False)
    # Valid only after a kill: the batches that it describes may be lost.
    open_log(tmp_path / "topic-0").close(clean=False)
    assert not recent.exists()
