"""All sources of a mirror in turns: once, or until somebody asks it to end.

An error of one source does not hold the others up. What may pass is told, and the next round tries again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from highwater.model.errors import HighwaterError, RetriableError
from highwater.spark.ending import one_line
from highwater.spark.load_plan import Gone
from highwater.spark.mirror.clients import MirrorFailed, MirrorTakenOver, error_of
from highwater.spark.mirror.progress import MirrorProgress

ROUNDS_FAILED_MAX: Final = 20
"""One after the other, of one source; then the error ends the mirror."""

LOOK_S: Final = 0.2
"""How often signals are looked at between rounds."""

_MAY_PASS: Final = (RetriableError, MirrorFailed, PySparkException, Py4JError, ConnectionError)


class Rounds(Protocol):
    """The part of `source_run.SourceRun` that is used here."""

    source: Any

    def round(self) -> Any:
        """Copies what is new, up to a round's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Where sentences and progress go, and offsets that retention took."""

    sentence: Callable[[str], None]
    progress: Callable[[MirrorProgress], None]
    gone: Callable[[tuple[Gone, ...]], None] = lambda _: None


class MirrorRun:
    """A run, which works once. `are_gone` says afterwards whether offsets were gone before they were copied."""

    def __init__(
        self,
        sources: Sequence[Rounds],
        *,
        stopping: Callable[[], bool],
        telling: Telling,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.are_gone = False
        self._sources = sources
        self._stopping = stopping
        self._telling = telling
        self._now = now
        self._sleep = sleep

    def run_once(self) -> None:
        """Copies what is there. Raises the first error when all other sources are done."""
        first: Exception | None = None
        for source in self._sources:
            try:
                while not self._stopping() and not self._round(source, tell_always=True):
                    pass
            except (HighwaterError, PySparkException, Py4JError, ConnectionError) as error:
                if first is not None:
                    self._tell(source, error)
                first = first or error
        if first is not None:
            raise first

    def run(self, every_s: float) -> None:
        """Copies until `stopping`; a round of all sources begins every `every_s` seconds at least.

        Raises what does not pass by itself, and what has come ROUNDS_FAILED_MAX times in a row.
        """
        failed = [0] * len(self._sources)
        while not self._stopping():
            began_s = self._now()
            is_idle = True
            for index, source in enumerate(self._sources):
                try:
                    is_idle = self._round(source, tell_always=False) and is_idle
                    failed[index] = 0
                except _MAY_PASS as error:
                    failed[index] += 1
                    if isinstance(error, MirrorTakenOver) or failed[index] >= ROUNDS_FAILED_MAX:
                        raise
                    self._tell(source, error)
                if self._stopping():
                    return
            # With a limit on rounds, there may be more already.
            while is_idle and self._now() < began_s + every_s and not self._stopping():
                self._sleep(LOOK_S)

    def _round(self, source: Rounds, *, tell_always: bool) -> bool:
        """Runs one round; returns whether there was nothing to do."""
        done = source.round()
        self.are_gone = self.are_gone or bool(done.gone)
        self._telling.gone(done.gone)
        if tell_always or not done.is_idle:
            self._telling.progress(done.progress)
        for each in done.failures[1:]:
            self._telling.sentence(each.text)
        if done.failures:
            raise error_of(done.failures[0])
        return bool(done.is_idle)

    def _tell(self, source: Rounds, error: BaseException) -> None:
        self._telling.sentence(f"{source.source.alias}: {one_line(error)}")
