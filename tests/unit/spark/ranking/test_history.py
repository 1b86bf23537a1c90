"""The order of places, and a table that is not there; tests/spark reads a real one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.ranking import history
from highwater.spark.ranking.board import Place


def place(start_s: int, rank: int) -> Place:
    return Place(
        window_start_s=start_s, window_end_s=start_s + 60, rank=rank, item="/", views=1, clicks=0,
        click_through=None,
    )  # fmt: skip


def test_places_come_in_the_order_of_time_and_rank():
    newest_first = [place(60, 1), place(60, 2), place(0, 1), place(0, 2)]
    assert history.in_order(newest_first) == [place(0, 1), place(0, 2), place(60, 1), place(60, 2)]


def test_before_the_first_commit():
    table: Any = SimpleNamespace(exists=lambda: False)
    assert history.places(table) == []
