"""Batches of a quarantine with a table that is none; tests/spark keeps real records."""

from __future__ import annotations

from unittest.mock import MagicMock, call

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.stream_quarantine import QuarantineSink


class Rows:
    def __init__(self, count: int) -> None:
        self.count = count

    def isEmpty(self) -> bool:
        return self.count == 0


def test_only_batches_with_rows_are_committed_with_their_number():
    table = MagicMock()
    sink = QuarantineSink(table, "watch-5f")
    none, some = Rows(0), Rows(2)
    sink.add(none, 0)
    sink.add(some, 1)
    assert table.commit.mock_calls == [call(some, writer="watch-5f", version=1, note="")]
