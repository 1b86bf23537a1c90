"""One run of the off-line load: what is new in topics goes into a table, once.

The table's commit holds the rows and the note with the offsets; there is no other memory. A format
whose values may not fit has a second table, the quarantine, which is committed after the first with the
same version. A run that finds the quarantine a version behind was killed between the two: it reads
that version's ranges once more, for the lines that did not fit, before it does anything else.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from highwater.model.errors import UsageError
from highwater.spark import load_note
from highwater.spark.brokers import Brokers, TopicPartition, TopicState
from highwater.spark.envelope import PARTITION_BY, shape, split
from highwater.spark.load_note import LoadNote
from highwater.spark.load_plan import Gone, Offered, Plan, plan
from highwater.spark.observed import counts
from highwater.spark.tables import Table, open_table
from highwater.spark.tables.local_lock import hold
from highwater.spark.tables.port import TableConflict
from highwater.spark.topic_range import OffsetRange, ReadOptions, read_ranges
from highwater.spark.value_format import ValueFormat

WRITER: Final = "load"
"""One for each table: whatever loads into it goes on from the same note."""

QUARANTINE: Final = "_quarantine"
"""Ends the path of the table with values that do not fit, unless another path is named."""


class FormatChanged(UsageError):
    """The table was loaded in another format."""

    reason = "FORMAT_CHANGED"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """What to load, and where to. `from_ms` is a time since 1970."""

    topics: tuple[str, ...]
    pattern: str | None
    table: str
    table_format: str
    value_format: ValueFormat
    read: ReadOptions
    quarantine: str | None = None
    from_ms: int | None = None
    replace: bool = False

    @property
    def quarantine_path(self) -> str:
        """The path of the quarantine."""
        return self.quarantine or f"{self.table.rstrip('/')}{QUARANTINE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far one partition is: loaded to before `next`, in the log to before `end`."""

    topic: str
    partition: int
    next: int
    end: int

    @property
    def lag(self) -> int:
        """Offsets that are not loaded yet."""
        return max(0, self.end - self.next)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What one run did. `version` is None if there was nothing to commit.

    `records` and `bad` are None where the table's format does not tell them. `partitions` are those of
    the topics that the run was asked for, after it.
    """

    version: int | None
    offsets: int
    records: int | None
    bad: int | None
    lag: int
    seconds: float
    gone: tuple[Gone, ...] = ()
    told: tuple[str, ...] = ()
    partitions: tuple[PartitionLag, ...] = ()


@dataclass(slots=True)
class LoadRun:
    """A run, which works once. `tell` gets sentences for the operator; `opened` makes tables."""

    spark: SparkSession
    request: LoadRequest
    tell: Callable[[str], None]
    opened: Callable[..., Table] = open_table
    _told: list[str] = field(default_factory=list)

    def run(self) -> LoadResult:
        """Loads what is new.

        Raises TableConflict if another run is at work, UsageError and RetriableError of all that it
        uses; nothing is committed then, or the quarantine is left for the next run.
        """
        with hold(self.request.table, WRITER):
            return self._run()

    def _run(self) -> LoadResult:
        started = time.monotonic()
        request = self.request
        table = self._open(request.table)
        found = table.committed(WRITER)
        last = None if found is None else load_note.from_json(found.note)
        if last is not None and last.value_format != request.value_format:
            raise FormatChanged(
                f"{request.table} was loaded as {last.value_format.name}"
                f"{' with another schema' if last.value_format.name is request.value_format.name else ''}: "
                "load into another table"
            )
        with Brokers(self.spark, request.read.bootstrap, request.read.kafka) as brokers:
            offered = offers(brokers, request)
            if found is not None and last is not None:
                self._finish_quarantine(brokers, found.version, last)
            decided = plan(
                last, offered, request.value_format,
                starts=self._starts(brokers, offered), replace=request.replace,
            )  # fmt: skip
            for sentence in decided.told:
                self._say(sentence)
            version = 0 if found is None else found.version + 1
            records, bad = self._load(table, decided, version) if decided.is_needed else (0, 0)
            partitions = lags(decided.note, offers(brokers, request))
        return LoadResult(
            version=version if decided.is_needed else None,
            offsets=sum(each.offsets for each in decided.note.ranges),
            records=records,
            bad=bad,
            lag=sum(each.lag for each in partitions),
            seconds=time.monotonic() - started,
            gone=decided.gone,
            told=tuple(self._told),
            partitions=partitions,
        )

    def _open(self, path: str) -> Table:
        return self.opened(self.spark, self.request.table_format, path, partition_by=PARTITION_BY)

    def _say(self, sentence: str) -> None:
        self._told.append(sentence)
        self.tell(sentence)

    def _starts(
        self, brokers: Brokers, offered: Mapping[str, Offered]
    ) -> dict[TopicPartition, int] | None:
        if self.request.from_ms is None:
            return None
        return brokers.at_time(_partitions(offered), self.request.from_ms)

    def _load(self, table: Table, decided: Plan, version: int) -> tuple[int | None, int | None]:
        """Commits the rows, then the quarantine; returns how many records, and how many did not fit."""
        note = decided.note
        offsets = sum(each.offsets for each in note.ranges)
        self.tell(f"{offsets} offsets of {len(note.ranges)} partitions to load")
        observation = Observation(WRITER)
        rows = self._rows(note.ranges, note).observe(
            observation, f.count(f.lit(1)).alias("records"), f.count("error").alias("bad")
        )
        done = table.commit(
            split(rows).good, writer=WRITER, version=version,
            note=load_note.to_json(note), replace=note.replace,
        )  # fmt: skip
        if not done:
            raise TableConflict(f"another run has loaded into {self.request.table} meanwhile")
        found = counts(observation)
        records = None if found is None else found["records"]
        bad = None if found is None else found["bad"]
        if not note.value_format.always_fits:
            # Nothing to read again if all values fit.
            self._quarantine(version, note, () if bad == 0 else note.ranges)
        return records, bad

    def _rows(self, ranges: Iterable[OffsetRange], note: LoadNote) -> DataFrame:
        ids = {name: topic.topic_id for name, topic in note.topics.items()}
        return shape(read_ranges(self.spark, ranges, self.request.read), ids, note.value_format)

    def _quarantine(self, version: int, note: LoadNote, ranges: Iterable[OffsetRange]) -> None:
        bad = split(self._rows(ranges, note)).bad
        place = self._open(self.request.quarantine_path)
        # A quarantine of a table that was removed since may be ahead; then its name is taken.
        if not place.commit(
            bad, writer=WRITER, version=version, note=load_note.to_json(note), replace=note.replace
        ):
            raise TableConflict(
                f"{self.request.quarantine_path} is of another load: it has version {version} already"
            )

    def _finish_quarantine(self, brokers: Brokers, version: int, last: LoadNote) -> None:
        if last.value_format.always_fits:
            return
        done = self._open(self.request.quarantine_path).committed(WRITER)
        if done is not None and done.version >= version:
            return
        self.tell(f"version {version} was loaded, but not its quarantine: reading for that again")
        readable = []
        wanted = {each.topic for each in last.ranges}
        names = brokers.existing(wanted)
        bounds = offers_of(brokers, names)
        for each in last.ranges:
            topic = bounds.get(each.topic)
            start = each.end
            if topic is not None and topic.topic_id == last.topics[each.topic].topic_id:
                start = min(each.end, max(each.start, topic.bounds[each.partition][0]))
            if start > each.start:
                self._say(
                    f"values that did not fit in {each.topic}-{each.partition} from {each.start} to "
                    f"{start} are gone before they were in quarantine"
                )
            readable.append(
                OffsetRange(topic=each.topic, partition=each.partition, start=start, end=each.end)
            )
        self._quarantine(version, last, readable)


def offers(brokers: Brokers, request: LoadRequest) -> dict[str, Offered]:
    """Returns what the brokers have of the wanted topics. Raises what `Brokers` raises."""
    return offers_of(
        brokers,
        brokers.topics(request.topics, request.pattern),
        read_committed=request.read.read_committed,
    )


def offers_of(
    brokers: Brokers, topics: Mapping[str, TopicState], *, read_committed: bool = True
) -> dict[str, Offered]:
    """Returns ids and bounds of topics as `Brokers.topics` gives them."""
    partitions = [
        TopicPartition(name, number)
        for name, topic in topics.items()
        for number in range(topic.partitions)
    ]
    # The start first: it only moves on, so that the end is never before it.
    earliest = brokers.earliest(partitions)
    latest = brokers.latest(partitions, read_committed=read_committed)
    return {
        name: Offered(
            topic_id=topic.topic_id,
            bounds={
                each.partition: (earliest[each], max(earliest[each], latest[each]))
                for each in partitions
                if each.topic == name
            },
        )
        for name, topic in topics.items()
    }


def lags(note: LoadNote, offered: Mapping[str, Offered]) -> tuple[PartitionLag, ...]:
    """Returns how far the note is in each partition that the brokers offer.

    A partition that the note does not know is where it begins.
    """
    found = []
    for name, topic in sorted(offered.items()):
        known = note.topics.get(name)
        for number, (earliest, latest) in sorted(topic.bounds.items()):
            position = None if known is None else known.partitions.get(number)
            start = earliest if position is None else position.next
            found.append(PartitionLag(topic=name, partition=number, next=start, end=latest))
    return tuple(found)


def _partitions(offered: Mapping[str, Offered]) -> list[TopicPartition]:
    return [
        TopicPartition(name, number) for name, topic in offered.items() for number in topic.bounds
    ]
