"""A mirror for people: rows over time, rates and lag by topic, and what it had to tell."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from highwater.spark.ending import page_may_fail
from highwater.spark.load_plan import Gone
from highwater.spark.mirror.progress import MirrorProgress
from highwater.spark.page import charts, time_steps
from highwater.spark.page.charts import Series
from highwater.spark.page.document import Column, Fact, Table
from highwater.spark.page.files import PageFiles
from highwater.spark.page.view import Drawing, View

ROUNDS_MAX: Final = 2000
"""Rounds with records that are drawn, the newest ones: half an hour at one a second, days of small ones."""

TOLD_MAX: Final = 100
RANKED_MAX: Final = 10
ROWS_MAX: Final = 100
REDRAW_S: Final = 60.0
"""A page costs a second of the driver."""

OTHERS: Final = "other sources"
_COLOURS: Final = (charts.BLUE, charts.GREEN, charts.VIOLET, charts.ORANGE, charts.INK)
_STEP_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A round with records, and when it ended, in seconds since 1970."""

    end_s: int
    source: str
    records: int


class MirrorSoFar:
    """What one run of a mirror has told since it began; one thread, that of the run, owns it.

    Topics are of a source: ALIAS/TOPIC.
    """

    def __init__(self) -> None:
        self.rounds: deque[Round] = deque(maxlen=ROUNDS_MAX)
        self.told: deque[str] = deque(maxlen=TOLD_MAX)
        self.newest: dict[str, MirrorProgress] = {}
        self.records: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.gone = 0

    def add(self, progress: MirrorProgress, at_s: int) -> None:
        """Counts one more round."""
        self.newest[progress.source] = progress
        if progress.records:
            self.rounds.append(Round(end_s=at_s, source=progress.source, records=progress.records))
        for topic, found in progress.by_topic.items():
            self.records[f"{progress.source}/{topic}"] += found.records
        before_s = self.seconds.get(progress.source, 0.0)
        self.seconds[progress.source] = before_s + progress.seconds

    def lost(self, gone: tuple[Gone, ...]) -> None:
        """Counts offsets that retention took before they were copied."""
        self.gone += sum(each.end - each.start for each in gone)


class MirrorPage:
    """The page of a run: drawn once a minute at most, after a round, and when the run ends."""

    def __init__(
        self,
        files: PageFiles,
        target: str,
        *,
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._files = files
        self._target = target
        self._now = now
        self._clock = clock
        self._so_far = MirrorSoFar()
        self._drawn_s: float | None = None

    def progress(self, found: MirrorProgress) -> None:
        """Takes a round into account."""
        self._so_far.add(found, int(self._clock()))
        if self._drawn_s is None or self._now() - self._drawn_s >= REDRAW_S:
            self.draw()

    def sentence(self, text: str) -> None:
        """Takes into account what the mirror has told."""
        self._so_far.told.append(text)

    def lost(self, gone: tuple[Gone, ...]) -> None:
        """Takes into account what retention took."""
        self._so_far.lost(gone)

    def draw(self) -> None:
        """Draws now, if a page is wanted. A page that fails is told, and the mirror goes on."""
        if not self._files.are_wanted:
            return
        with page_may_fail():
            self._files.write(to_view(self._target, self._so_far))
        self._drawn_s = self._now()


def to_view(target: str, so_far: MirrorSoFar) -> View:
    """Returns what there is to see of a run that copies into `target`."""
    lags = {
        f"{source}/{topic}": found.lag
        for source, progress in so_far.newest.items()
        for topic, found in progress.by_topic.items()
    }
    rates = {
        name: round(records / max(so_far.seconds[name.partition("/")[0]], 0.001))
        for name, records in so_far.records.items()
    }
    return View(
        title=f"Mirror into {target}",
        subtitle=f"From {', '.join(sorted(so_far.newest)) or 'no source yet'}.",
        facts=_facts(so_far, sum(lags.values())),
        drawings=(
            _over_time(so_far),
            _ranked("Rows/s by topic, of the rounds' time", rates, charts.BLUE),
            _ranked("Lag by topic, offsets", lags, charts.ORANGE),
        ),
        tables=(_partitions(so_far.newest), _told(so_far)),
    )


def _facts(so_far: MirrorSoFar, lag: int) -> tuple[Fact, ...]:
    newest = so_far.newest.values()
    facts = (
        Fact(label="Records copied by this run", value=f"{so_far.records.total():,}"),
        Fact(label="Lag, offsets", value=f"{lag:,}", wrong=lag > 0),
        Fact(label="Sources", value=f"{len(newest):,}"),
        Fact(label="Topics", value=f"{sum(each.topics for each in newest):,}"),
    )
    lost = Fact(label="Gone before they were copied", value=f"{so_far.gone:,}", wrong=True)
    return (*facts, lost) if so_far.gone else facts


def _over_time(so_far: MirrorSoFar) -> Drawing:
    steps = time_steps.cover((each.end_s for each in so_far.rounds), least_s=_STEP_S)
    sizes: Counter[str] = Counter()
    for each in so_far.rounds:
        sizes[each.source] += each.records
    names = [name for name, _ in sizes.most_common()]
    if len(names) > len(_COLOURS):
        names = [*names[: len(_COLOURS) - 1], OTHERS]
    counts = {name: Counter[int]() for name in names}
    for each in so_far.rounds:
        name = each.source if each.source in counts else OTHERS
        counts[name][steps.start_of(each.end_s)] += each.records
    series = [
        Series(name=name, values=[counts[name][start] for start in steps.starts], colour=colour)
        for name, colour in zip(names, _COLOURS, strict=False)
    ]

    def draw(axes: Any) -> None:
        charts.bars_over_time(axes, steps.times, series, width=steps.width)

    return Drawing(title=f"Rows copied per {steps.text}", draw=draw)


def _ranked(title: str, counts: Mapping[str, int], colour: str) -> Drawing:
    first = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:RANKED_MAX]

    def draw(axes: Any) -> None:
        names, values = [name for name, _ in first], [value for _, value in first]
        charts.ranking(axes, names, values, [colour] * len(first))

    return Drawing(title=title, draw=draw, wide=False)


def _partitions(newest: Mapping[str, MirrorProgress]) -> Table:
    places = [
        (source, place, at)
        for source, progress in sorted(newest.items())
        for place, at in progress.offsets.items()
    ]
    return Table(
        title="How far each partition is copied",
        columns=(
            Column(name="Source"),
            Column(name="Partition"),
            Column(name="Next offset", numbers=True),
        ),
        rows=[(source, place, f"{at:,}") for source, place, at in places[:ROWS_MAX]],
        empty="No round yet.",
    )


def _told(so_far: MirrorSoFar) -> Table:
    return Table(
        title="What the mirror had to tell, the newest first",
        columns=(Column(name="Sentence"),),
        rows=[(sentence,) for sentence in reversed(so_far.told)],
        empty="Nothing.",
    )
