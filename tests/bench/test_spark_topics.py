"""How many records a topic gets, and what they are."""

from __future__ import annotations

from tests.bench import load
from tests.bench.spark_topics import PARTITIONS, RECORDS_PER_BATCH, Data, plan


def test_a_topic_has_as_many_gigabytes_as_asked_for() -> None:
    filled = plan("t", Data.PLAIN, 5.0)
    assert 5e9 <= filled.records * 1024 < 5e9 + RECORDS_PER_BATCH * 1024
    assert plan("t", Data.LZ4, 0.0).batches == PARTITIONS


def test_compressed_batches_have_as_many_records_and_are_smaller() -> None:
    batch = load.lz4_records(RECORDS_PER_BATCH)
    assert int.from_bytes(batch[57:61]) == RECORDS_PER_BATCH
    assert 0.1 < len(batch) / (RECORDS_PER_BATCH * 1024) < 0.7
