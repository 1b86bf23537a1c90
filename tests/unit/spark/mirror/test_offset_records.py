"""Records of the offsets topic: there and back, and which syncs compaction leaves."""

from __future__ import annotations

import json

import pytest

from highwater.spark.mirror.offset_records import (
    RING,
    Copy,
    OffsetsUnreadable,
    Sync,
    Withdrawn,
    key_of,
    parse,
    slot,
    value_of,
)

COPY = Copy(topic="a.t", source="a", source_topic="t", path=("x", "y"))
SYNC = Sync(
    topic="a.t", partition=3, number=7, source_id="s", copy_id="c",
    source_first=10, source_next=20, copy_first=5, copy_next=14, records=9,
)  # fmt: skip


@pytest.mark.parametrize("record", [COPY, SYNC, Withdrawn(topic="t")])
def test_there_and_back(record: Copy | Sync | Withdrawn):
    assert parse(key_of(record), value_of(record)) == record


def test_the_format():
    assert json.loads(key_of(COPY)) == ["copy", "a.t"]
    assert json.loads(value_of(COPY) or b"") == {
        "version": 1, "source": "a", "source_topic": "t", "path": ["x", "y"],
    }  # fmt: skip
    assert json.loads(key_of(SYNC)) == ["sync", "a.t", 3, slot(7)]
    assert json.loads(value_of(SYNC) or b"") == {
        "version": 1, "number": 7, "source_id": "s", "copy_id": "c",
        "source": [10, 20], "copy": [5, 14], "records": 9,
    }  # fmt: skip


def test_a_claim_and_its_withdrawal_have_one_key():
    assert key_of(Withdrawn(topic="a.t")) == key_of(COPY)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"x", b"{}"),
        (b'["copy", "t"]', b"{"),
        (b'["copy", "t"]', b'{"version": 2}'),
        (b'["copy", "t"]', b'{"version": 1}'),
        (b'["sync", "t", 0, 1]', None),
        (b'["sync", "t"]', b'{"version": 1}'),
        (b'["other", "t"]', b'{"version": 1}'),
    ],
)
def test_records_that_are_none_of_ours(key: bytes | None, value: bytes | None):
    with pytest.raises(OffsetsUnreadable):
        parse(key, value)


@pytest.mark.parametrize("last", [1, 2, 64, 65, 1000, 99_999])
def test_old_syncs_thin_out(last: int):
    kept: dict[int, int] = {}
    for number in range(1, last + 1):
        kept[slot(number)] = number
    numbers = sorted(kept.values())
    assert numbers[-min(last, 2 * RING) :] == list(range(max(1, last - 2 * RING + 1), last + 1))
    for back in range(1, min(3000, last - numbers[0]) + 1):
        nearest = max(number for number in numbers if number <= last - back)
        assert last - back - nearest <= back / (RING - 1)
    assert len(numbers) <= RING * last.bit_length()
