"""Whole passes over logs with transactions, swapped in and read back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from highwater.kafka.records.batch import DELETE_HORIZON_BIT, is_control
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.cleaning.swap import CleaningRun
from highwater.partition.storage.log.log import PartitionLog
from tests.support.cleaned_node import CleanedNode
from tests.support.compacted_logs import batches_in, job_of, records_in, rewritten
from tests.support.log_batches import append, make_batch, open_log
from tests.support.transactional_logs import end, indexed, write

pytestmark = pytest.mark.timeout(60)
RETENTION_MS = 1_000


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[CleanedNode]:
    made = CleanedNode(tmp_path / "logs")
    yield made
    made.close()


async def clean(node: CleanedNode, log: PartitionLog, **job: int) -> None:
    """One pass over all closed segments, each of which stays one of its own."""
    log.stored_high_watermark = log.log_end_offset
    groups, log.cleaning.first_dirty = rewritten(
        job_of(
            log,
            now_ms=node.clock.now_ms,
            delete_retention_ms=RETENTION_MS,
            **{"segment_bytes": 1, **job},
        )
    )
    run = CleaningRun(
        node.entry(log), log.log_end_offset, on_abort=lambda: None, fail=node.failures.append
    )
    log.cleaning.running = run
    for group in groups:
        await run.swap(group, index_bytes=log.config.segment_index_bytes)
    log.cleaning.running = None
    await node.settle()


def filled(node: CleanedNode) -> PartitionLog:
    """Offset 0 is committed, 1 and 2 aborted, all of one key; 5 and 6 are markers."""
    log = node.log()
    write(log, 5, value=b"committed")
    write(log, 6, value=b"aborted")
    write(log, 6, value=b"aborted, too")
    append(log, make_batch(value=b"other" * 5, timestamps=(node.clock.now_ms,) * 2))
    log.roll()
    end(log, 6, commit=False)
    end(log, 5, commit=True)
    log.roll()
    for producer_id in (5, 6):  # So that compaction need not keep what tells their sequences.
        write(log, producer_id, epoch=1, value=b"later")
        end(log, producer_id, epoch=1, commit=True)
    append(log, make_batch(timestamps=(node.clock.now_ms,)))
    return log


def sorted_files(log: PartitionLog) -> list[Path]:
    return sorted(Path(log.directory).iterdir())


def as_a_crash_leaves_it(log: PartitionLog, directory: Path, base: int) -> None:
    """Moves the log, of whose segment at `base` a swap was decided and not completed."""
    directory.parent.mkdir()
    Path(log.directory).rename(directory)
    for kind in (".log", ".index", ".timeindex", ".txnindex"):
        source = directory / f"{base:020d}{kind}"
        made = directory / f"{source.name}.cleaned"
        if not made.exists():
            made.write_bytes(source.read_bytes())
        made.rename(directory / f"{source.name}.swap")


def values(log: PartitionLog) -> list[bytes | None]:
    records = [r for r in records_in(log) if r.value is not None and len(r.key or b"") == 1]
    return [record.value for record in records if record.offset < 7]


async def test_aborted_records_go_and_replace_nothing(node: CleanedNode) -> None:
    log = filled(node)
    before = indexed(log)[1]
    assert [(one.first_offset, one.last_offset) for one in before] == [(1, 5)]
    log.roll()
    await clean(node, log)
    assert [len(entries) for entries in indexed(log)][:2] == [0, 1]
    assert indexed(log)[1] == before
    assert not any(value and value.startswith(b"aborted") for value in values(log))
    assert log.transactions.aborted(0, 5) == [(one.producer_id, one.first_offset) for one in before]
    files = sorted(path.suffix for path in sorted_files(log) if path.stem.endswith("5"))
    assert files == [".index", ".log", ".snapshot", ".timeindex", ".txnindex"]


async def test_a_marker_goes_when_its_time_is_over(node: CleanedNode) -> None:
    log = filled(node)
    controls = []
    for _ in range(4):
        append(log, make_batch(timestamps=(node.clock.now_ms,)))
        log.roll()
        await clean(node, log)
        controls.append(
            [
                (batch.base_offset, bool(batch.attributes & DELETE_HORIZON_BIT))
                for batch in batches_in(log)
                if is_control(batch.attributes) and batch.base_offset < 6
            ]
        )
        node.clock.now_ms += RETENTION_MS
    # The first pass meets the batches, the second finds them gone, the third lets its time pass.
    assert controls == [[(5, False)], [(5, True)], [], []]
    assert indexed(log) == [[]] * len(log.extent.all)


async def test_an_aborted_value_does_not_hide_a_committed_one(node: CleanedNode) -> None:
    log = node.log()
    write(log, 5, value=b"committed")
    end(log, 5, commit=True)
    write(log, 6, value=b"aborted")
    log.roll()
    end(log, 6, commit=False)
    append(log, make_batch(timestamps=(node.clock.now_ms,) * 2)[:])
    log.roll()
    append(log, make_batch(timestamps=(node.clock.now_ms,)))
    job = job_of(log, segment_bytes=1)
    assert indexed(log)[1] == [AbortedTransaction(6, 2, 3, 4)]
    groups, _ = rewritten(job)
    assert groups
    await clean(node, log)
    found = [record.value for record in records_in(log) if record.offset < 3]
    assert b"aborted" not in found


async def test_a_start_rebuilds_what_a_completed_swap_leaves(
    node: CleanedNode, tmp_path: Path
) -> None:
    log = filled(node)
    log.roll()
    groups, _ = rewritten(job_of(log, now_ms=node.clock.now_ms, segment_bytes=1))
    log.cleaning.mark_gaps()
    await node.settle()  # The worker writes the snapshot of the roll, which `close` writes, too.
    log.close(clean=True)
    assert {group.bases[0] for group in groups} >= {0}
    directory = tmp_path / "again" / "table-0"
    as_a_crash_leaves_it(log, directory, 5)
    again = open_log(directory, clean=True, recovery_point=log.log_end_offset)
    assert [(one.first_offset, one.last_offset) for one in indexed(again)[1]] == [(1, 5)]
    again.close(clean=False)
