"""A load counts only if the job and its table have all records."""

from __future__ import annotations

import pytest

from tests.bench.spark_load import LoadIncomplete, check


def test_another_number_of_rows_fails() -> None:
    check("kafka", 500, told=500, rows=500)
    for told, rows in ((499, 500), (500, 499), (500, 501), (None, 500)):
        with pytest.raises(LoadIncomplete, match="kafka: 500 records were written"):
            check("kafka", 500, told=told, rows=rows)
