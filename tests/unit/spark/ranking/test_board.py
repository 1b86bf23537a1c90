from __future__ import annotations

import json

from highwater.spark.ranking.board import Place, records


def place(start_s: int, rank: int, item: str) -> Place:
    return Place(
        window_start_s=start_s, window_end_s=start_s + 60, rank=rank, item=item, views=2, clicks=1,
        click_through=0.5,
    )  # fmt: skip


def test_the_newest_window_fills_all_ranks():
    found = records([place(60, 2, "/b"), place(60, 1, "/a"), place(0, 3, "/old")], 3)
    assert [key for key, _ in found] == ["1", "2", "3"]
    assert found[2] == ("3", None)
    assert json.loads(found[0][1] or "") == {
        "window_start": 60, "window_end": 120, "rank": 1, "item": "/a", "views": 2, "clicks": 1,
        "click_through": 0.5,
    }  # fmt: skip


def test_a_batch_that_closes_no_window_says_nothing():
    assert records([], 3) == []
