"""What is in the log against what is in the table: counts and checksums, then single offsets.

For each partition the range that the table's note says is loaded is read from the log, parsed as the
load parses it, and grouped with the table's rows by topic id, partition and hour. Groups whose counts and
checksums are equal are equal; in the others single offsets are compared. Offsets that the log no
longer has cannot be compared, and are told. So are rows beside what the note knows.

Note, rows and quarantine are those of one version, also while a load is at work.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from highwater.model.errors import RetriableError, UsageError
from highwater.spark import load_note
from highwater.spark.brokers import Brokers
from highwater.spark.envelope import shape, split
from highwater.spark.load_note import LoadNote
from highwater.spark.load_plan import Gone, Offered
from highwater.spark.load_run import QUARANTINE, WRITER, offers_of, quarantine_writer
from highwater.spark.tables import Table, open_table
from highwater.spark.topic_range import OffsetRange, ReadOptions, read_ranges

OFFSETS_MAX: Final = 1000
"""How many differing offsets a report lists."""

HOURS_MAX: Final = 10_000
"""How many hours a report has counts of, the newest ones: more than a year."""

OUTSIDE_MAX: Final = 1000
"""How many groups of rows a report lists that no load has written."""

LOOKS_MAX: Final = 10
LOOK_S: Final = 1.0
"""How often, and how long apart, table and quarantine are looked at until both have the same version."""

_GROUP: Final = ("topic", "topic_id", "partition", "hour")


class NothingLoaded(UsageError):
    """The table has no commit of a load."""

    reason = "NOTHING_LOADED"


class QuarantineBehind(RetriableError):
    """A load has committed the table, and not yet its quarantine."""

    reason = "QUARANTINE_BEHIND"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDifference:
    """One partition's hour (seconds since 1970): records of the log, rows of the table."""

    topic: str
    topic_id: str
    partition: int
    hour: int
    in_log: int
    in_table: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDifference:
    """One offset: `what` is missing, extra, repeated or altered, as seen from the log."""

    topic: str
    partition: int
    offset: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideRows:
    """Rows of a partition that are not of what the note says was loaded.

    `is_older`: of an older topic of this name, from whose loads rows stay; all others are a difference.
    """

    topic: str
    topic_id: str
    partition: int
    rows: int
    is_older: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedHour:
    """All partitions' records of an hour (seconds since 1970).

    `equal` are in groups that are equal; `differing` in the others, of the log or of the table, whichever
    has more.
    """

    hour: int
    equal: int
    differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """The whole report. `uncompared` are ranges that the log no longer has, `hours` the newest ones."""

    records: int
    groups: int
    different: tuple[GroupDifference, ...]
    offsets: tuple[OffsetDifference, ...]
    uncompared: tuple[Gone, ...]
    hours: tuple[ComparedHour, ...] = ()
    outside: tuple[OutsideRows, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.different and all(each.is_older for each in self.outside)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What to compare; `read` has to be as the load was."""

    table: str
    table_format: str
    read: ReadOptions
    quarantine: str | None = None

    @property
    def quarantine_path(self) -> str:
        """The path of the quarantine."""
        return self.quarantine or f"{self.table.rstrip('/')}{QUARANTINE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a table says: the note of its last load, and the rows of that version. `bad`: of the quarantine."""

    note: LoadNote
    good: DataFrame
    bad: DataFrame | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Ranges to compare, and those that cannot be."""

    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str]
    uncompared: tuple[Gone, ...]


def scope(note: LoadNote, offered: Mapping[str, Offered]) -> Scope:
    """Returns what of the loaded ranges the log still has."""
    ranges: list[OffsetRange] = []
    uncompared: list[Gone] = []
    for name, topic in sorted(note.topics.items()):
        there = offered.get(name)
        same = there is not None and there.topic_id == topic.topic_id
        for number, position in sorted(topic.partitions.items()):
            start = position.next
            if there is not None and same:
                start = min(start, max(position.begin, there.bounds[number][0]))
            if start > position.begin:
                uncompared.append(
                    Gone(topic=name, partition=number, start=position.begin, end=start)
                )
            ranges.append(OffsetRange(topic=name, partition=number, start=start, end=position.next))
    return Scope(
        ranges=tuple(ranges),
        topic_ids={name: topic.topic_id for name, topic in note.topics.items()},
        uncompared=tuple(uncompared),
    )


def audit(spark: SparkSession, request: AuditRequest) -> AuditResult:
    """Compares. Raises NothingLoaded, QuarantineBehind, and errors of what it reads."""
    found = loaded(spark, request)
    note = found.note
    with Brokers(spark, request.read.bootstrap, request.read.kafka) as brokers:
        offered = offers_of(brokers, brokers.existing(note.topics))
    wanted = scope(note, offered)
    shaped = shape(
        read_ranges(spark, wanted.ranges, request.read), wanted.topic_ids, note.value_format
    )
    parts = split(shaped)
    log = fingerprints(parts.good)
    rows = fingerprints(found.good)
    if found.bad is not None:
        log = log.unionByName(fingerprints(parts.bad))
        rows = rows.unionByName(fingerprints(found.bad))
    compared = compare(log, within(rows, wanted), wanted.uncompared)
    return replace(compared, outside=outside(rows, note))


def loaded(
    spark: SparkSession,
    request: AuditRequest,
    *,
    opened: Callable[..., Table] = open_table,
    sleep: Callable[[float], None] = time.sleep,
) -> Loaded:
    """Returns one version of table and quarantine. Raises NothingLoaded, QuarantineBehind."""
    table = opened(spark, request.table_format, request.table)
    version = None
    for look in range(LOOKS_MAX):
        if look:
            sleep(LOOK_S)
        found = table.snapshot(WRITER)
        if found is None:
            raise NothingLoaded(
                f"{request.table} has no commit of a load in {request.table_format}"
            )
        note = load_note.from_json(found.committed.note)
        if note.value_format.always_fits:
            return Loaded(note=note, good=found.rows, bad=None)
        version = found.committed.version
        place = opened(spark, request.table_format, request.quarantine_path)
        left = place.snapshot(quarantine_writer(note.load_id))
        if left is not None and left.committed.version == version:
            return Loaded(note=note, good=found.rows, bad=left.rows)
    raise QuarantineBehind(
        f"{request.quarantine_path} does not have version {version} of {request.table}: a load is at work; or "
        "one was killed, and the next one makes up for it; or another --quarantine was used"
    )


def fingerprints(rows: DataFrame) -> DataFrame:
    """Returns the group, the offset and a hash of all else for each row."""
    # By name: tables give their columns back in an order of their own.
    content = [
        # Spark hashes no maps.
        f.to_json(field.name) if "map<" in field.dataType.simpleString() else f.col(field.name)
        for field in sorted(rows.schema.fields, key=lambda field: field.name)
        if field.name not in {"date", "hour"}
    ]
    return rows.select(
        "topic",
        "topic_id",
        "partition",
        f.unix_seconds(f.date_trunc("hour", "timestamp")).alias("hour"),
        "offset",
        f.xxhash64(*content).alias("hash"),
    )


def within(rows: DataFrame, wanted: Scope) -> DataFrame:
    """Returns rows of topics of the note, but those that the log no longer has.

    Rows beyond the loaded range stay, and show as extra; `outside` has those that no load has written.
    """
    kept = f.lit(False)
    for each in wanted.ranges:
        kept = kept | (
            (f.col("topic") == each.topic)
            & (f.col("topic_id") == wanted.topic_ids[each.topic])
            & (f.col("partition") == each.partition)
            & (f.col("offset") >= each.start)
        )
    return rows.where(kept)


def outside(rows: DataFrame, note: LoadNote) -> tuple[OutsideRows, ...]:
    """Returns how many rows there are beside what the note says was loaded, by topic and partition."""
    known = f.lit(False)
    for name, topic in note.topics.items():
        for number, position in topic.partitions.items():
            known = known | (
                (f.col("topic") == name)
                & (f.col("topic_id") == topic.topic_id)
                & (f.col("partition") == number)
                & (f.col("offset") >= position.begin)
            )
    place = ["topic", "topic_id", "partition"]
    # A row whose place is null is nowhere.
    strange = rows.where(~f.coalesce(known, f.lit(False)))
    counted = strange.groupBy(*place).agg(f.count("*").alias("rows"))
    return tuple(
        OutsideRows(
            topic=row["topic"], topic_id=row["topic_id"], partition=row["partition"], rows=row["rows"],
            is_older=row["topic"] in note.topics
            and row["topic_id"] != note.topics[row["topic"]].topic_id,
        )
        for row in counted.orderBy(*place).limit(OUTSIDE_MAX).collect()
    )  # fmt: skip


def compare(log: DataFrame, rows: DataFrame, uncompared: tuple[Gone, ...]) -> AuditResult:
    """Compares fingerprints of the log with those of the table."""
    groups = (
        _grouped(log, "log").join(_grouped(rows, "table"), [*_GROUP], "full_outer").na.fill(0)
    ).cache()
    try:
        whole = groups.agg(f.count("*"), f.sum("count_log")).first()
        assert whole is not None
        is_unequal = (f.col("count_log") != f.col("count_table")) | (
            f.col("sum_log") != f.col("sum_table")
        )
        unequal = groups.where(is_unequal)
        different = tuple(
            GroupDifference(
                topic=row["topic"], topic_id=row["topic_id"], partition=row["partition"],
                hour=row["hour"], in_log=row["count_log"], in_table=row["count_table"],
            )
            for row in unequal.orderBy(*_GROUP).collect()
        )  # fmt: skip
        offsets = _offsets(log, rows, unequal.select(*_GROUP)) if different else ()
        hours = _hours(groups, is_unequal)
    finally:
        groups.unpersist()
    return AuditResult(
        records=int(whole[1] or 0),
        groups=int(whole[0]),
        different=different,
        offsets=offsets,
        uncompared=uncompared,
        hours=hours,
    )


def _hours(groups: DataFrame, is_unequal: Column) -> tuple[ComparedHour, ...]:
    size = f.greatest("count_log", "count_table")
    counted = groups.groupBy("hour").agg(
        f.sum(f.when(is_unequal, 0).otherwise(size)).alias("equal"),
        f.sum(f.when(is_unequal, size).otherwise(0)).alias("differing"),
    )
    newest = counted.orderBy(f.desc("hour")).limit(HOURS_MAX).collect()
    return tuple(ComparedHour(**row.asDict()) for row in reversed(newest))


def _grouped(prints: DataFrame, name: str) -> DataFrame:
    return prints.groupBy(*_GROUP).agg(
        f.count("*").alias(f"count_{name}"),
        # Hashes use all of their 64 bits; a sum of them needs more.
        f.sum(f.col("hash").cast("decimal(20,0)")).alias(f"sum_{name}"),
    )


def _offsets(log: DataFrame, rows: DataFrame, groups: DataFrame) -> tuple[OffsetDifference, ...]:
    # A row whose hour was altered is missing in one group and extra in the other.
    place = ["topic", "topic_id", "partition", "hour", "offset"]

    def counted(prints: DataFrame, name: str) -> DataFrame:
        return (
            prints.join(groups, [*_GROUP], "left_semi")
            .groupBy(*place)
            .agg(f.count("*").alias(f"count_{name}"), f.min("hash").alias(f"hash_{name}"))
        )

    pairs = counted(log, "log").join(counted(rows, "table"), place, "full_outer")
    what = (
        f.when(f.col("count_table").isNull(), "missing")
        .when(f.col("count_log").isNull(), "extra")
        .when(f.col("count_table") > f.col("count_log"), "repeated")
        .when(f.col("hash_log") != f.col("hash_table"), "altered")
    )
    found = pairs.withColumn("what", what).where(f.col("what").isNotNull())
    return tuple(
        OffsetDifference(
            topic=row["topic"], partition=row["partition"], offset=row["offset"], what=row["what"]
        )
        for row in found.orderBy("topic", "partition", "offset").limit(OFFSETS_MAX).collect()
    )
