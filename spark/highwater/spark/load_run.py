"""One run of the off-line load: what is new in topics goes into a table, once.

The table's commit holds the rows and the note with the offsets; there is no other memory. A format
whose values may not fit has a second table, the quarantine, which is committed after the first with the
same version. A run that finds the quarantine a version behind was killed between the two: it reads
that version's ranges once more, for the lines that did not fit, before it does anything else.

The writer of the quarantine is named after an id that the table's first load has made, so that the
versions of another table, or of one that was removed, are never taken for this one's.

What is gone is known when a commit is planned, and told when the run ends: in between it can fail or be killed. So the
notes keep it, and when it was told a second writer of the table commits no rows under the same version. A run
that finds that writer behind tells it again.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from highwater.model.errors import RetriableError, UsageError
from highwater.spark import load_note
from highwater.spark.brokers import Brokers, TopicChanged, TopicMissing, TopicPartition, TopicState
from highwater.spark.envelope import PARTITION_BY, shape, split
from highwater.spark.load_note import LoadNote
from highwater.spark.load_plan import Gone, Offered, Plan, beyond, plan
from highwater.spark.observed import counts
from highwater.spark.tables import Table, open_table
from highwater.spark.tables.local_lock import hold
from highwater.spark.tables.port import CommitNoteGone, TableConflict
from highwater.spark.topic_range import OffsetRange, ReadOptions, read_ranges
from highwater.spark.value_format import ValueFormat

WRITER: Final = "load"
"""One for each table: whatever loads into it goes on from the same note."""

TELLER: Final = f"{WRITER}.told"
"""Commits a version without rows once what is gone before it was told; most versions lack nothing, and have none."""

QUARANTINE: Final = "_quarantine"
"""Ends the path of the table with values that do not fit, unless another path is named."""


class FormatChanged(UsageError):
    """The table was loaded in another format."""

    reason = "FORMAT_CHANGED"


class QuarantineTaken(UsageError):
    """The quarantine has another load's values, or is ahead of its table."""

    reason = "QUARANTINE_TAKEN"


def quarantine_writer(load_id: str) -> str:
    """Returns who writes the quarantine of the loads with this id, which old notes do not have."""
    return f"{WRITER}.{load_id}" if load_id else WRITER


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
    """A run, which works once. `tell` gets sentences for the operator.

    `opened` makes tables, `connected` clients of brokers, `new_id` the id of a table's loads. `aim` gets
    the number of offsets that are to be read.
    """

    spark: SparkSession
    request: LoadRequest
    tell: Callable[[str], None]
    opened: Callable[..., Table] = open_table
    connected: Callable[..., Brokers] = Brokers
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex
    aim: Callable[[int], None] = lambda _: None
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
        load_id = self.new_id() if last is None else last.load_id
        self._check_quarantine(load_id, None if found is None else found.version)
        with self.connected(self.spark, request.read.bootstrap, request.read.kafka) as brokers:
            offered = offers(brokers, request)
            gone: tuple[Gone, ...] = ()
            if found is not None and last is not None:
                gone = self._make_up(table, brokers, found.version, last)
            decided = self._plan(brokers, last, offered)
            gone += decided.gone
            note = replace(decided.note, load_id=load_id, gone=_ranges(gone))
            decided = replace(decided, note=note)
            for sentence in decided.told:
                self._say(sentence)
            version = 0 if found is None else found.version + 1
            records, bad = self._load(table, decided, version) if decided.is_needed else (0, 0)
            now = self._offers_now(brokers, offered)
            self._check_ids(decided.note, now)
            partitions = lags(decided.note, now)
            if gone:
                self._remember_told(
                    table, decided.note, version if decided.is_needed else version - 1
                )
        return LoadResult(
            version=version if decided.is_needed else None,
            offsets=sum(each.offsets for each in decided.note.ranges),
            records=records,
            bad=bad,
            lag=sum(each.lag for each in partitions),
            seconds=time.monotonic() - started,
            gone=gone,
            told=tuple(self._told),
            partitions=partitions,
        )

    def _plan(
        self, brokers: Brokers, last: LoadNote | None, offered: Mapping[str, Offered]
    ) -> Plan:
        hidden = beyond(last, offered) if self.request.read.read_committed else []
        return plan(
            last, offered, self.request.value_format,
            starts=self._starts(brokers, offered), replace=self.request.replace,
            high_watermarks=brokers.latest(hidden, read_committed=False) if hidden else {},
            pattern=self.request.pattern,
        )  # fmt: skip

    def _offers_now(
        self, brokers: Brokers, offered: Mapping[str, Offered]
    ) -> Mapping[str, Offered]:
        """Returns what has come meanwhile. What is committed is done, whoever does not answer now."""
        try:
            return offers(brokers, self.request)
        except (RetriableError, TopicMissing) as error:
            self._say(f"the lag is that of before the load: {error}")
            return offered

    def _check_ids(self, note: LoadNote, now: Mapping[str, Offered]) -> None:
        """Tells of topics that were made anew while they were read: nothing in a record says which it is of."""
        for name in sorted({each.topic for each in note.ranges}):
            if name in now and now[name].topic_id != note.topics[name].topic_id:
                self._say(
                    f"topic {name} was made anew while it was loaded: the last rows of topic id "
                    f"{note.topics[name].topic_id} may be records of the new one"
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
        self.aim(offsets)
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

    def _check_quarantine(self, load_id: str, version: int | None) -> None:
        """Raises QuarantineTaken before anything is committed: afterwards the table would have moved on."""
        if self.request.value_format.always_fits:
            return
        path = self.request.quarantine_path
        place = self._open(path)
        done = place.committed(quarantine_writer(load_id))
        if done is not None and (version is None or done.version > version):
            raise QuarantineTaken(
                f"{path} has version {done.version} of a load into {self.request.table}, which has "
                f"{'none' if version is None else version}: name another --quarantine, or remove it"
            )
        # What a kill left of its first commit has no rows.
        if version is None and place.exists() and place.read().limit(1).count():
            raise QuarantineTaken(
                f"{path} has values of another load, but {self.request.table} has none yet: "
                "name another --quarantine, or remove it"
            )

    def _quarantine(self, version: int, note: LoadNote, ranges: Iterable[OffsetRange]) -> None:
        bad = split(self._rows(ranges, note)).bad
        place = self._open(self.request.quarantine_path)
        if not place.commit(
            bad, writer=quarantine_writer(note.load_id), version=version,
            note=load_note.to_json(note), replace=note.replace,
        ):  # fmt: skip
            raise TableConflict(
                f"another run has written version {version} of {self.request.quarantine_path} meanwhile"
            )

    def _make_up(
        self, table: Table, brokers: Brokers, version: int, last: LoadNote
    ) -> tuple[Gone, ...]:
        """Does what runs left undone behind their commits; returns what is gone that none of them told."""
        if last.value_format.always_fits:
            return self._untold(table, version, last)
        place = self._open(self.request.quarantine_path)
        done = place.committed(quarantine_writer(last.load_id))
        if done is not None and done.version >= version:
            # It also knows what was gone when it was made up for.
            return self._untold(table, version, load_note.from_json(done.note))
        gone = self._untold(table, version, last)
        return gone + self._finish_quarantine(brokers, version, last)

    def _untold(self, table: Table, version: int, note: LoadNote) -> tuple[Gone, ...]:
        """Returns what is gone by the note of a version, and says it, unless a run has ended with it."""
        if not note.gone:
            return ()
        try:
            told = table.committed(TELLER)
        except CommitNoteGone:
            # Older than what Delta's log has, and so than this version, whose note is there.
            told = None
        if told is not None and told.version >= version:
            return ()
        for lost in note.gone:
            self._say(
                f"{lost.offsets} offsets of {lost.topic}-{lost.partition}, from {lost.start} "
                f"on, were gone by retention before version {version} was loaded as a whole"
            )
        return tuple(Gone(**asdict(each)) for each in note.gone)

    def _remember_told(self, table: Table, note: LoadNote, version: int) -> None:
        """Raises TableConflict, behind which the next run tells it again."""
        nothing = split(self._rows((), note)).good
        table.commit(nothing, writer=TELLER, version=version, note="")

    def _finish_quarantine(
        self, brokers: Brokers, version: int, last: LoadNote
    ) -> tuple[Gone, ...]:
        """Writes the quarantine that a killed run left undone; returns what of it is gone."""
        self.tell(f"version {version} was loaded, but not its quarantine: reading for that again")
        gone: list[Gone] = []
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
                gone.append(
                    Gone(topic=each.topic, partition=each.partition, start=each.start, end=start)
                )
                self._say(
                    f"values that did not fit in {each.topic}-{each.partition} from {each.start} to "
                    f"{start} are gone before they were in quarantine"
                )
            readable.append(replace(each, start=start))
        self._quarantine(version, replace(last, gone=last.gone + _ranges(gone)), readable)
        return tuple(gone)


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
    """Returns ids and bounds of topics as `Brokers.topics` gives them.

    Raises TopicChanged if the offsets may be those of other topics of these names.
    """
    partitions = [
        TopicPartition(name, number)
        for name, topic in topics.items()
        for number in range(topic.partitions)
    ]
    # The start first: it only moves on, so that the end is never before it.
    earliest = brokers.earliest(partitions)
    latest = brokers.latest(partitions, read_committed=read_committed)
    if changed := brokers.changed(topics):
        raise TopicChanged(
            f"topic {', '.join(changed)} was deleted or made anew just now; run again"
        )
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


def _ranges(gone: Iterable[Gone]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(**asdict(each)) for each in gone)


def _partitions(offered: Mapping[str, Offered]) -> list[TopicPartition]:
    return [
        TopicPartition(name, number) for name, topic in offered.items() for number in topic.bounds
    ]
