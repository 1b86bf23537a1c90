from __future__ import annotations

from tests.bench.writer import ReadBack, compare


def test_the_log_may_hold_more_than_was_acknowledged() -> None:
    found = compare([0, 1, 3], [0, 1, 2, 3, 4])
    assert found == ReadBack(acknowledged=3, missing=0, repeated=0)
    assert found.is_whole


def test_missing_and_repeated_records_are_counted() -> None:
    found = compare([0, 1, 2, 3], [0, 0, 0, 2, 5, 5])
    assert found == ReadBack(acknowledged=4, missing=2, repeated=2)
    assert not found.is_whole
