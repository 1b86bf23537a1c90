"""One view of each job that draws a page, made of values, with names that somebody chose to do harm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from highwater.spark.access_events import parse_line

if TYPE_CHECKING:
    from highwater.spark.page.view import View
    from highwater.spark.stream_page import StreamSoFar

MARKUP = "<script>document.title='taken'</script>"
LINE = (
    f'{MARKUP} - - [17/May/2015:10:05:03 +0000] "GET /{MARKUP}&$x^{{$_\u202e HTTP/1.1" 200 7 '
    '"-" "-"'
)
"""A line of a log whose client and path are markup, half a formula, and a mark of direction."""

START_S = 1_431_856_800
HOUR_S = 3600


def client_and_path() -> tuple[str, str]:
    """What the jobs make of the line."""
    event = parse_line(LINE)
    assert event is not None
    return event.client, event.path


def load() -> View:
    """Three topics in two days, one partition behind, and two values in quarantine."""
    from highwater.spark import load_view
    from highwater.spark.load_plan import Gone
    from highwater.spark.load_run import LoadResult, PartitionLag
    from highwater.spark.load_summary import BadValue, Complaint, HourRows, LoadSummary

    _, path = client_and_path()
    start = datetime.fromtimestamp(START_S, UTC)

    def hours(topic: str, rows: int) -> list[HourRows]:
        return [
            HourRows(topic=topic, start=start + timedelta(hours=hour), rows=rows + hour % 5)
            for hour in range(48)
        ]

    result = LoadResult(
        version=3, offsets=900, records=898, bad=2, lag=17, seconds=2.5,
        gone=(Gone(topic="orders", partition=0, start=3, end=5),),
        told=(f"told of {path}",),
        partitions=tuple(
            PartitionLag(topic=name, partition=number, next=100, end=100 + lag)
            for name, number, lag in (("orders", 0, 17), ("orders", 1, 0), ("events", 0, 0))
        ),
    )  # fmt: skip
    summary = LoadSummary(
        rows=898,
        bad_rows=2,
        hours=(*hours("orders", 7), *hours("events", 3)),
        bad_hours=(HourRows(topic="orders", start=start, rows=2),),
        complaints=(Complaint(topic="orders", error="not JSON of the schema", rows=2),),
        newest_bad=(
            BadValue(topic="orders", partition=0, offset=41, error="not JSON", value=LINE),
        ),
    )
    return load_view.to_view(f"/lake/{path}", result, summary)


def audit() -> View:
    """Thirty hours, two of which differ in three partitions."""
    from highwater.spark import audit_view
    from highwater.spark.audit_run import (
        AuditResult,
        ComparedHour,
        GroupDifference,
        OffsetDifference,
    )

    _, path = client_and_path()
    result = AuditResult(
        records=3000,
        groups=90,
        different=tuple(
            GroupDifference(
                topic="orders", topic_id="id", partition=number, hour=START_S, in_log=40,
                in_table=39 + number,
            )
            for number in (0, 1, 2)
        ),
        offsets=tuple(
            OffsetDifference(topic="orders", partition=0, offset=offset, what=what)
            for offset, what in enumerate(("missing", "altered", "altered"))
        ),
        uncompared=(),
        hours=tuple(
            ComparedHour(hour=START_S + n * HOUR_S, equal=90, differing=60 if n == 4 else 0)
            for n in range(30)
        ),
    )  # fmt: skip
    return audit_view.to_view(f"/lake/{path}", result)


def mirror() -> View:
    """Two sources in half an hour, one topic behind, and offsets that retention took."""
    from highwater.spark.load_plan import Gone
    from highwater.spark.mirror.progress import MirrorProgress, TopicProgress
    from highwater.spark.mirror.view import MirrorSoFar, to_view

    _, path = client_and_path()
    found = MirrorSoFar()
    for minute in range(30):
        for source, topic in (("east", "orders"), ("west", "events")):
            records = 100 + minute % 7
            lag = 17 if source == "east" else 0
            found.add(
                MirrorProgress(
                    source=source, round=minute, topics=1, records=records, records_per_s=50.0,
                    size_bytes=9000, transactions=1, offsets={f"{topic}-0": 100 * minute}, lag=lag,
                    skipped=0, moved=0, seconds=2.0,
                    by_topic={topic: TopicProgress(records=records, lag=lag)},
                ),
                START_S + minute * 60,
            )  # fmt: skip
    found.lost((Gone(topic="orders", partition=0, start=3, end=5),))
    found.told.append(f"told of {path}")
    return to_view("h2:9092", found)


def watch() -> View:
    """Two hours with an outage, latencies, and alarms: one that ended and one that sounds."""
    from highwater.spark.watch.alarms import AlarmChange
    from highwater.spark.watch.minute import Minute
    from highwater.spark.watch.view import to_view

    _, path = client_and_path()
    minutes = [
        Minute(
            start_s=START_S + number * 60,
            requests=50 + number % 7,
            errors=20 if 40 <= number < 60 else 0,
            client_errors=number % 3,
            latency_p50=20.0,
            latency_p95=40.0 + number,
            latency_p99=90.0 + number,
        )
        for number in range(120)
        if not 80 <= number < 90
    ]

    def change(rule: str, *, begins: bool, at: int, since: int) -> AlarmChange:
        return AlarmChange(
            rule=rule,
            begins=begins,
            at_s=START_S + at * 60,
            since_s=START_S + since * 60,
            value=0.4,
            limit=0.05,
        )

    changes = [
        change(f"errors of {path}", begins=True, at=42, since=42),
        change(f"errors of {path}", begins=False, at=62, since=42),
        change("silence", begins=True, at=89, since=89),
    ]
    return to_view("access_log", minutes, changes, so_far())


def ranking() -> View:
    """Two days of windows, in which the line's path is the first item."""
    from highwater.spark.ranking.board import Place
    from highwater.spark.ranking.view import to_view

    _, path = client_and_path()
    places = [
        Place(
            window_start_s=START_S + window * HOUR_S,
            window_end_s=START_S + (window + 6) * HOUR_S,
            rank=rank,
            item=item,
            views=100 - 10 * rank + window % 9,
            clicks=5 * (4 - rank),
            click_through=(4 - rank) / 20,
        )
        for window in range(48)
        for rank, item in enumerate((path, "/blog/", "_private"), start=1)
    ]
    return to_view("access_log", places, so_far())


def crawlers() -> View:
    """Some clients; the line's is on the list."""
    from highwater.spark.crawlers.log import ClientChange
    from highwater.spark.crawlers.sessions import Limits
    from highwater.spark.crawlers.view import to_view

    client, _ = client_and_path()
    changes = []
    for number, name in enumerate((client, "10.0.0.1", "10.0.0.2")):
        start_s = START_S + number * HOUR_S
        changes.append(
            ClientChange(
                client=name, detected=True, at_s=start_s + 30, session_start_s=start_s, requests=60
            )
        )
        if number:
            changes.append(
                ClientChange(
                    client=name,
                    detected=False,
                    at_s=start_s + 1200,
                    session_start_s=start_s,
                    requests=900,
                )
            )
    limits = Limits(requests=60, within_ms=60_000, gap_ms=600_000)
    return to_view("access_log", changes, limits, so_far())


def so_far() -> StreamSoFar:
    """A stream with one batch."""
    from highwater.spark.stream_page import StreamSoFar
    from highwater.spark.stream_progress import StreamProgress

    found = StreamSoFar()
    found.add(
        StreamProgress(
            batch=4, records=1000, records_per_s=250.5, offsets={0: 10, 1: 20}, lag=7, late_rows=2,
            unparsed=5, ahead=3, newest_s=9, state_rows=7, watermark="2015-05-17T10:00:00.000Z",
        )
    )  # fmt: skip
    return found
