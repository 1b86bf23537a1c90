"""The page of a stream: what the run has told so far, and when the page is drawn.

Drawn once a minute at most, after a batch, and when the stream ends. What the tables say is read anew
each time; how the stream itself does is of this run only, since no table has it.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from highwater.spark.ending import page_may_fail
from highwater.spark.page.document import Column, Fact, Table
from highwater.spark.page.files import PageFiles
from highwater.spark.page.view import View
from highwater.spark.stream_progress import StreamProgress

REDRAW_S: Final = 60.0
"""A page costs a second or two of the driver, and some small reads of the tables."""

BATCHES_MAX: Final = 20
"""Of the table of batches, the newest ones."""


@dataclass(slots=True)
class StreamSoFar:
    """What one run of a stream has told since it began."""

    batches: deque[StreamProgress] = field(default_factory=lambda: deque(maxlen=BATCHES_MAX))
    records: int = 0
    late_rows: int = 0
    unparsed: int = 0
    ahead: int = 0

    def add(self, progress: StreamProgress) -> None:
        """Counts one more batch."""
        self.batches.append(progress)
        self.records += progress.records
        self.late_rows += progress.late_rows
        self.unparsed += progress.unparsed
        self.ahead += progress.ahead

    def facts(self) -> tuple[Fact, ...]:
        """Returns what is to be seen of any stream."""
        lag = self.batches[-1].lag if self.batches else 0
        return (
            Fact(label="Records read by this run", value=f"{self.records:,}"),
            Fact(label="Late, left out", value=f"{self.late_rows:,}", wrong=self.late_rows > 0),
            Fact(label="Not in the format", value=f"{self.unparsed:,}", wrong=self.unparsed > 0),
            Fact(label="Ahead of the log's clock", value=f"{self.ahead:,}", wrong=self.ahead > 0),
            Fact(label="Lag, records", value=f"{lag:,}"),
        )

    def table(self) -> Table:
        """Returns the newest batches, the last one first."""
        return Table(
            title="The newest batches of this run",
            columns=(
                Column(name="Batch", numbers=True),
                Column(name="Records", numbers=True),
                Column(name="Rows/s", numbers=True),
                Column(name="Lag", numbers=True),
                Column(name="Late", numbers=True),
                Column(name="Not in the format", numbers=True),
                Column(name="Ahead", numbers=True),
                Column(name="Watermark"),
            ),
            rows=[
                (
                    str(each.batch),
                    f"{each.records:,}",
                    f"{each.records_per_s:,.0f}",
                    f"{each.lag:,}",
                    f"{each.late_rows:,}",
                    f"{each.unparsed:,}",
                    f"{each.ahead:,}",
                    each.watermark,
                )
                for each in reversed(self.batches)
            ],
            empty="No batch yet.",
            wide=True,
        )


class StreamPage:
    """The page of one run. `view` reads the tables; one thread, that of the run, calls everything."""

    def __init__(
        self,
        files: PageFiles,
        view: Callable[[StreamSoFar], View],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._view = view
        self._now = now
        self._so_far = StreamSoFar()
        self._is_stale = False
        self._drawn_s: float | None = None

    def told(self, progress: StreamProgress) -> None:
        """Takes a batch into account."""
        self._so_far.add(progress)
        self.changed()
        self.look()

    def changed(self) -> None:
        """The tables have changed without a batch."""
        self._is_stale = True

    def look(self) -> None:
        """Draws, if there is something new and the last time is long enough ago."""
        is_due = self._drawn_s is None or self._now() - self._drawn_s >= REDRAW_S
        if self._is_stale and is_due:
            self._draw()

    def end(self) -> None:
        """Draws what is new since the last time; at least once."""
        if self._is_stale or self._drawn_s is None:
            self._draw()

    def _draw(self) -> None:
        """Draws now, if a page is wanted. A page that fails is told, and the stream goes on."""
        if not self._files.are_wanted:
            return
        with page_may_fail():
            self._files.write(self._view(self._so_far))
        self._is_stale = False
        self._drawn_s = self._now()
