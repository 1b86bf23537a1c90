"""Commits and offsets of a checkpoint, and the age of records when their batch was committed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.bench.spark_checkpoint import (
    Batch,
    Created,
    NotCommitted,
    committed,
    ends_of,
    latencies_ms,
    percentile,
    read_batches,
)


def write(checkpoint: Path, number: int, ends: str, *, committed_s: float | None) -> None:
    for name in ("commits", "offsets"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
    text = f'v1\n{{"batchWatermarkMs":0,"conf":{{"a":"b"}}}}\n{{"topic":{ends}}}'
    (checkpoint / "offsets" / str(number)).write_text(text)
    if committed_s is not None:
        file = checkpoint / "commits" / str(number)
        file.write_text("v1\n{}")
        os.utime(file, (committed_s, committed_s))
        (checkpoint / "commits" / f".{number}.crc").write_text("")


def test_batches_are_those_with_a_commit_in_the_order_of_numbers(tmp_path: Path) -> None:
    assert read_batches(tmp_path) == []
    assert committed([]) == 0
    write(tmp_path, 9, '{"0":5,"1":2}', committed_s=100.25)
    write(tmp_path, 10, '{"1":4,"0":6}', committed_s=101.0)
    write(tmp_path, 11, '{"1":9,"0":9}', committed_s=None)
    batches = read_batches(tmp_path)
    assert [batch.number for batch in batches] == [9, 10]
    assert batches[0].committed_ms == 100_250.0
    assert batches[1].ends == {0: 6, 1: 4}
    assert committed(batches) == 10


def test_offsets_are_of_one_topic() -> None:
    with pytest.raises(ValueError, match="unpack"):
        ends_of('v1\n{}\n{"a":{"0":1},"b":{"0":1}}')


def test_a_record_waits_for_the_first_batch_that_ends_behind_it() -> None:
    batches = [
        Batch(number=0, committed_ms=1000.0, ends={0: 2}),
        Batch(number=1, committed_ms=2000.0, ends={0: 2, 1: 1}),
        Batch(number=2, committed_ms=3000.0, ends={0: 4, 1: 1}),
    ]
    records = [Created(0, 0, 900), Created(0, 1, 990), Created(0, 2, 991), Created(1, 0, 1500)]
    assert latencies_ms(records, batches) == [100.0, 10.0, 2009.0, 500.0]
    with pytest.raises(NotCommitted, match="offset 1 of partition 1"):
        latencies_ms([Created(1, 1, 0)], batches)
    with pytest.raises(NotCommitted):
        latencies_ms([Created(0, 0, 0)], [])


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 0)) == (50, 99, 1)
    assert percentile([7.0], 99) == 7.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
