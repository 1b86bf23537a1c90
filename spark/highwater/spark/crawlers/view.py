"""Crawlers for people: which clients were detected, how fast they were, and how many are on the list."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from highwater.spark.crawlers.log import ClientChange
from highwater.spark.crawlers.sessions import Limits
from highwater.spark.page import charts, time_steps
from highwater.spark.page.charts import Series
from highwater.spark.page.document import Column, Fact, Table
from highwater.spark.page.view import Drawing, View
from highwater.spark.stream_page import StreamSoFar

RANKED_MAX: Final = 10
ROWS_MAX: Final = 200
"""Sessions in the table, the newest ones."""

_MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    """A session of a client that was detected; times are seconds since 1970.

    `detected_s` is None if only the session's end is known, `over_s` while it goes on. `requests` are those
    within `seconds`, from the session's first request to the last one that is known.
    """

    client: str
    start_s: int
    detected_s: int | None
    over_s: int | None
    requests: int
    seconds: int

    @property
    def per_minute(self) -> float:
        """Requests a minute; a session of a second or less counts as one second."""
        return self.requests * _MINUTE_S / max(self.seconds, 1)


def crawls_of(changes: Iterable[ClientChange], limits: Limits) -> list[Crawl]:
    """Returns the sessions of these changes, the newest one first."""
    found: dict[tuple[str, int], Crawl] = {}
    for change in sorted(changes, key=lambda each: (each.at_s, not each.detected)):
        key = change.client, change.session_start_s
        began = found.get(key)
        # A session is over a gap after its last request.
        last_s = change.at_s if change.detected else change.at_s - limits.gap_ms // 1000
        found[key] = Crawl(
            client=change.client,
            start_s=change.session_start_s,
            detected_s=change.at_s if change.detected else _detected_s(began),
            over_s=None if change.detected else change.at_s,
            requests=change.requests,
            seconds=max(0, last_s - change.session_start_s),
        )
    return sorted(found.values(), key=lambda each: (-each.start_s, each.client))


def _detected_s(began: Crawl | None) -> int | None:
    return None if began is None else began.detected_s


def to_view(
    topic: str, changes: Sequence[ClientChange], limits: Limits, so_far: StreamSoFar
) -> View:
    """Returns what there is to see of the changes."""
    crawls = crawls_of(changes, limits)
    clients = {each.client for each in crawls}
    listed = {each.client for each in crawls if each.over_s is None}
    return View(
        title=f"Crawlers of topic {topic}",
        subtitle=(
            f"Clients with {limits.requests:,} requests within {limits.within_ms / 1000:g} s; a session "
            f"ends after {limits.gap_ms / 1000:g} s without one."
        ),
        facts=(
            Fact(label="On the list", value=f"{len(listed):,}", wrong=bool(listed)),
            Fact(label="Detected clients", value=f"{len(clients):,}"),
            Fact(label="Detected sessions", value=f"{len(crawls):,}"),
            *so_far.facts(),
        ),
        drawings=(_detections(crawls), _rates(crawls), _requests(crawls)),
        tables=(_table(crawls), so_far.table()),
    )


def _detections(crawls: Sequence[Crawl]) -> Drawing:
    seconds = [each.detected_s for each in crawls if each.detected_s is not None]
    steps = time_steps.cover(seconds, least_s=_MINUTE_S)
    counts = Counter(map(steps.start_of, seconds))
    one = Series(
        name="detections", values=[counts[start] for start in steps.starts], colour=charts.RED
    )

    def draw(axes: Any) -> None:
        charts.bars_over_time(axes, steps.times, (one,), width=steps.width)

    return Drawing(title=f"Detections per {steps.text}", draw=draw)


def _rates(crawls: Sequence[Crawl]) -> Drawing:
    fastest: dict[str, float] = {}
    for each in crawls:
        fastest[each.client] = max(each.per_minute, fastest.get(each.client, 0))
    rates = {client: round(rate) for client, rate in fastest.items()}
    return _ranking("Fastest clients, requests a minute", rates, charts.ORANGE)


def _requests(crawls: Sequence[Crawl]) -> Drawing:
    counts: Counter[str] = Counter()
    for each in crawls:
        counts[each.client] += each.requests
    return _ranking("Requests of detected sessions", counts, charts.VIOLET)


def _ranking(title: str, counts: dict[str, int], colour: str) -> Drawing:
    first = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:RANKED_MAX]

    def draw(axes: Any) -> None:
        names, values = [name for name, _ in first], [count for _, count in first]
        charts.ranking(axes, names, values, [colour] * len(first))

    return Drawing(title=title, draw=draw, wide=False)


def _table(crawls: Sequence[Crawl]) -> Table:
    def text(second: int | None) -> str:
        return "" if second is None else f"{datetime.fromtimestamp(second, UTC):%d %b %Y %H:%M:%S}"

    return Table(
        title="Detected sessions",
        columns=(
            Column(name="Client"),
            Column(name="First request (UTC)"),
            Column(name="Detected"),
            Column(name="Over"),
            Column(name="Requests", numbers=True),
            Column(name="A minute", numbers=True),
        ),
        rows=[
            (
                each.client,
                text(each.start_s),
                text(each.detected_s),
                "on the list" if each.over_s is None else text(each.over_s),
                f"{each.requests:,}",
                f"{each.per_minute:,.0f}",
            )
            for each in crawls[:ROWS_MAX]
        ],
        empty="No client was detected.",
        wide=True,
    )
