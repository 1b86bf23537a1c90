"""Random keyed records in real files, cleaned repeatedly, with a crash after any rename.

Always: the newest value of every key is there, records keep their offsets, and producers keep
their state.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater.partition.core.producers import ProducerEntry
from highwater.partition.storage.cleaning.job import GroupWritten
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.recovery import compaction_swap
from tests.support.compacted_logs import job_of, keyed_batch, newest, records_in, rewritten
from tests.support.log_batches import ManualClock, append, open_log

CONFIG = LogConfig(compact=True, index_interval_bytes=80, segment_bytes=400)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
VALUES = st.one_of(st.none(), st.binary(min_size=1, max_size=30))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
ROUND = st.tuples(
    st.lists(
        st.tuples(PAIRS, st.sampled_from([0, 0, 1, 2, 3, 4]), st.sampled_from([-1, 5, 6])),
        min_size=1,
        max_size=12,
    ),
    st.integers(4, 40),  # Keys that fit the offset map.
    st.integers(1, 2_000),  # Bytes per cleaned segment.
    st.integers(0, 60),  # Renames and unlinks before the crash.
    st.booleans(),  # Whether the node stops in order if it is not killed.
)


def carry_out(directory: Path, groups: list[GroupWritten], budget: int) -> bool:
    """Carries out the steps of all swaps; False if the crash comes first."""
    for group in groups:
        for step in compaction_swap.swap(group.bases):
            if budget <= 0:
                return False
            match step:
                case compaction_swap.Rename():
                    if (directory / step.old).exists():
                        (directory / step.old).replace(directory / step.new)
                        budget -= 1
                case compaction_swap.Unlink():
                    (directory / step.name).unlink(missing_ok=True)
                case _:
                    continue
    return True


def sequences(log: PartitionLog) -> dict[int, tuple[int, int, int]]:
    return {e.producer_id: _place(e) for e in log.producers.states.entries()}


def _place(entry: ProducerEntry) -> tuple[int, int, int]:
    return entry.producer_epoch, entry.last_sequence, entry.last_offset


def write(
    log: PartitionLog, batches: list[tuple[list[tuple[bytes, bytes | None]], int, int]]
) -> None:
    for pairs, codec, producer in batches:
        known = {e.producer_id: e.last_sequence for e in log.producers.states.entries()}
        append(
            log,
            keyed_batch(
                pairs,
                compression=codec,
                producer_id=producer,
                base_sequence=known.get(producer, -1) + 1 if producer >= 0 else -1,
                timestamp_ms=log._place.clock.wall_ms(),
            ),
        )
    log.roll()
    append(log, keyed_batch([(b"active", b"%d" % log.log_end_offset)]))


@given(rounds=st.lists(ROUND, min_size=1, max_size=3))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_table_outlives_cleanings_and_crashes(rounds: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as parent:
        directory = Path(parent) / "topic-0"
        clock = ManualClock()
        log = open_log(directory, CONFIG, clock=clock)
        written = {}
        for batches, keys_max, segment_bytes, budget, orderly in rounds:
            write(log, batches)  # type: ignore[arg-type]
            written.update((record.offset, record) for record in records_in(log))
            expected, producers, end = newest(written.values()), sequences(log), log.log_end_offset
            groups, next_dirty = rewritten(
                job_of(log, keys_max=keys_max, segment_bytes=segment_bytes)  # type: ignore[arg-type]
            )
            log.cleaning.mark_gaps()
            log.close(clean=orderly)  # type: ignore[arg-type]
            done = carry_out(directory, groups, budget)  # type: ignore[arg-type]
            if not orderly:
                for snapshot in directory.glob("*.snapshot"):
                    snapshot.unlink()
            log = open_log(directory, CONFIG, clock=clock, clean=bool(orderly), recovery_point=1)
            log.cleaning.first_dirty = next_dirty if done else 0
            found = records_in(log)
            assert newest(found) == expected
            assert [r.offset for r in found] == sorted({r.offset for r in found})
            assert all(written[record.offset] == record for record in found)
            assert sequences(log) == producers
            assert log.log_end_offset == end
            assert not [n for n in os.listdir(directory) if n.endswith((".cleaned", ".swap"))]  # noqa: PTH208
        log.close(clean=False)
