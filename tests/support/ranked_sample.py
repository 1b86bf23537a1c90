"""What `ranking` has to find in the sample log, and the command that makes it look."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.stream_jobs import latest, read_all, sample_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_S = 3600
LATE_S = 24 * HOUR_S
TOP = 5
SITES = ("semicomplete.com", "www.semicomplete.com")
ITEMS = "^/[a-z]+/"
WORDS = (
    "--late", "1 day", "--window", "6 hours", "--slide", "2 hours", "--top", str(TOP),
    "--items", ITEMS, "--site", SITES[0], "--site", SITES[1],
)  # fmt: skip

Row = tuple[int, int, int, str, int, int, float | None]


def expected() -> list[Row]:
    """window start and end, rank, item, views, clicks, click-through of all closed windows."""
    views: dict[int, Counter[str]] = defaultdict(Counter)
    clicks: dict[int, Counter[str]] = defaultdict(Counter)
    events = sample_events()
    for event in events:
        if event.status >= 400:
            continue
        time_s = int(event.time.timestamp())
        newest_s = time_s // (2 * HOUR_S) * 2 * HOUR_S
        for start_s in (newest_s, newest_s - 2 * HOUR_S, newest_s - 4 * HOUR_S):
            views[start_s][event.path] += 1
            if event.referrer_host in SITES:
                clicks[start_s][event.referrer_path] += 1
    watermark_s = int(events[-1].time.timestamp()) - LATE_S
    rows: list[Row] = []
    for start_s in sorted(start_s for start_s in views if start_s + 6 * HOUR_S <= watermark_s):
        items = [item for item in {*views[start_s], *clicks[start_s]} if _is_item(item)]
        items.sort(key=lambda item: (-views[start_s][item], -clicks[start_s][item], item))
        for number, item in enumerate(items[:TOP], start=1):
            seen, went_on = views[start_s][item], clicks[start_s][item]
            rate = went_on / seen if seen else None
            rows.append((start_s, start_s + 6 * HOUR_S, number, item, seen, went_on, rate))
    return rows


def _is_item(path: str) -> bool:
    first, slash, _ = path[1:].partition("/")
    return bool(
        path.startswith("/") and slash and first.isascii() and first.isalpha() and first.islower()
    )


def arguments(
    bootstrap: str, topic: str, board: str, place: Path, *, offsets_per_batch: int
) -> list[str]:
    """The job's name and options; its table and its checkpoint are in `place`."""
    return [
        "ranking", "--bootstrap", bootstrap, "--topic", topic, *WORDS,
        "--checkpoint", str(place / "state"), "--table", str(place / "ranking"),
        "--board-topic", board, "--max-offsets-per-batch", str(offsets_per_batch), "--every", "0",
    ]  # fmt: skip


def assert_right(spark: SparkSession, bootstrap: str, board: str, tmp_path: Path) -> None:
    """Compares the table with the file, to the row, and the latest values of the board's topic."""
    from pyspark.sql import functions as f

    from highwater.spark.tables import open_table

    rows = (
        open_table(spark, "delta", str(tmp_path / "ranking"))
        .read()
        .select(
            f.unix_seconds("window_start"), f.unix_seconds("window_end"),
            "rank", "item", "views", "clicks", "click_through",
        )
        .collect()
    )  # fmt: skip
    wanted = expected()
    assert len(wanted) > 100
    assert sorted(map(tuple, rows)) == wanted
    newest_s = wanted[-1][0]
    found = {key: json.loads(value) for key, value in latest(read_all(bootstrap, board)).items()}
    assert {
        key: (each["window_start"], each["item"], each["views"]) for key, each in found.items()
    } == {
        str(number): (start_s, item, seen)
        for start_s, _, number, item, seen, _, _ in wanted
        if start_s == newest_s
    }
