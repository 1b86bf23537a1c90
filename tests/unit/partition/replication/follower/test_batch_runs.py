"""Batches from a leader: valid ones are appended unchanged, up to the first invalid one."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from highwater.kafka.records.builder import end_transaction_marker
from highwater.partition.replication.follower.batch_runs import Run, split_runs
from tests.support.log_batches import make_batch


def split(
    *batches: bytes, offset: int = 5, epoch: int = 0, epoch_max: int = 9, gaps_end: int = -1
) -> tuple[list[Run], str]:
    return split_runs(
        memoryview(b"".join(batches)),
        offset=offset,
        epoch=epoch,
        epoch_max=epoch_max,
        gaps_end=gaps_end,
    )


def test_batches_are_divided_by_leader_epoch() -> None:
    batches = [
        make_batch(base_offset=5, epoch=2, timestamps=(10, 30)),
        make_batch(base_offset=7, epoch=2, timestamps=(30,)),
        make_batch(base_offset=8, epoch=4, timestamps=(20,), producer_id=1, producer_epoch=0,
                   base_sequence=3),
    ]  # fmt: skip
    runs, unsound = split(*batches)
    assert unsound == ""
    first, second = runs
    sizes = [len(batch) for batch in batches]
    assert (first.info.leader_epoch, first.start, first.stop) == (2, 0, sizes[0] + sizes[1])
    assert (first.info.base_offsets, first.info.sizes, first.info.next_offset) == (
        [5, 7],
        sizes[:2],
        8,
    )
    assert (first.info.max_timestamp, first.info.max_timestamp_offset) == (30, 6), (
        "the first that has it"
    )
    assert first.idempotent == []
    assert (second.info.leader_epoch, second.start, second.stop) == (4, first.stop, sum(sizes))
    assert (second.info.base_offsets, second.info.next_offset) == ([8], 9)
    assert [header[9:12] for header in second.idempotent] == [(1, 0, 3)]


def test_an_empty_answer_has_no_runs() -> None:
    assert split() == ([], "")


def flipped(batch: bytearray, at: int) -> bytearray:
    changed = bytearray(batch)
    changed[at] ^= 1
    return changed


GOOD = make_batch(base_offset=6, epoch=3)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (flipped(GOOD, len(GOOD) - 1), "checksum"),
        (flipped(GOOD, 22), "checksum"),
        (flipped(GOOD, 16), "magic 3"),
        (flipped(GOOD, 8), "length"),
        (struct.pack(">qi", 6, -1) + GOOD[12:], "length -1"),
        (struct.pack(">q", -6) + GOOD[8:], "offset -6"),
        (make_batch(base_offset=7, epoch=3), "7 instead of 6"),
        (make_batch(base_offset=5, epoch=3), "5 instead of 6"),
        (make_batch(base_offset=6, epoch=2), "epoch 2 comes after 3"),
        (make_batch(base_offset=6, epoch=10), "epoch 10"),
    ],
)
def test_what_is_before_an_unsound_batch_is_sound(bad: bytes, why: str) -> None:
    good = make_batch(base_offset=5, epoch=3)
    runs, unsound = split(good, bad, make_batch(base_offset=7, epoch=3))
    assert why in unsound
    (run,) = runs
    assert (run.stop, run.info.next_offset) == (len(good), 6)


@pytest.mark.parametrize(("nbytes", "why"), [(1, "1 bytes"), (60, "60 bytes"), (-1, "length")])
def test_a_batch_may_not_be_cut_off(nbytes: int, why: str) -> None:
    good = make_batch(base_offset=5, epoch=3)
    runs, unsound = split(good, GOOD[:nbytes])
    assert why in unsound
    assert [run.stop for run in runs] == [len(good)]


def test_a_batch_may_not_be_older_than_the_log() -> None:
    assert split(GOOD, offset=6, epoch=4) == ([], "leader epoch 3 comes after 4 in epoch 9")


def test_compacted_logs_have_gaps_but_nothing_comes_twice() -> None:
    runs, unsound = split(
        make_batch(base_offset=9), make_batch(base_offset=12), make_batch(base_offset=12),
        gaps_end=12,
    )  # fmt: skip
    assert "12 instead of 13" in unsound
    assert [run.info.base_offsets for run in runs] == [[9, 12]]
    assert runs[0].info.next_offset == 13


@pytest.mark.parametrize(
    ("bases", "epochs", "gaps"),
    [
        ((5, 6), (1, 1), [False]),
        ((7, 8), (1, 1), [True]),
        ((5, 8), (1, 1), [True]),
        ((5, 6, 9), (1, 2, 2), [False, True]),
        ((5, 6, 9), (1, 1, 2), [True, True]),
    ],
)
def test_runs_tell_whether_offsets_are_missing(
    bases: tuple[int, ...], epochs: tuple[int, ...], gaps: list[bool]
) -> None:
    batches = [make_batch(base_offset=b, epoch=e) for b, e in zip(bases, epochs, strict=True)]
    runs, unsound = split(*batches, gaps_end=9)
    assert unsound == ""
    assert [run.gap for run in runs] == gaps


def test_a_gap_that_reaches_too_far_is_unsound() -> None:
    runs, unsound = split(make_batch(base_offset=5), make_batch(base_offset=8), gaps_end=7)
    assert "8 instead of 6" in unsound
    assert [run.info.next_offset for run in runs] == [6]


def marker(offset: int, *, commit: bool, producer_id: int = 1) -> bytes:
    return end_transaction_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=3,
        timestamp_ms=10,
        base_offset=offset,
        leader_epoch=2,
    )


def test_markers_are_read_and_one_that_aborts_begins_a_run() -> None:
    runs, unsound = split(
        make_batch(base_offset=5, epoch=2),
        marker(6, commit=True),
        make_batch(base_offset=7, epoch=2),
        marker(8, commit=False),
        make_batch(base_offset=9, epoch=2),
    )
    assert unsound == ""
    assert [run.info.base_offsets for run in runs] == [[5, 6, 7], [8, 9]]
    assert [run.markers for run in runs] == [{6: (True, 3)}, {8: (False, 3)}]
    assert [run.gap for run in runs] == [False, False]


def test_an_unreadable_marker_is_unsound() -> None:
    damaged = bytearray(marker(6, commit=True))
    damaged[-8:] = b"\xff" * 8
    damaged[17:21] = crc32c(damaged[21:]).to_bytes(4, "big")
    runs, unsound = split(make_batch(base_offset=5, epoch=2), bytes(damaged))
    assert [run.info.base_offsets for run in runs] == [[5]]
    assert "control batch at offset 6" in unsound
