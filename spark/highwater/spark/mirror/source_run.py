"""One source of a mirror: rounds that plan, read by Spark's connector, and write by a task for each partition.

There is no checkpoint beside the target: every round begins with what the offsets topic there says.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from highwater.spark.brokers import Brokers, TopicPartition, TopicState
from highwater.spark.load_plan import Gone, Offered
from highwater.spark.load_run import offers_of
from highwater.spark.mirror.admission import Admission, copies_at
from highwater.spark.mirror.clients import Failure, TargetClients, Trouble, error_of
from highwater.spark.mirror.naming import (
    Source,
    is_offsets_topic,
    offsets_topic,
    transactional_id,
)
from highwater.spark.mirror.offset_log import OffsetLog
from highwater.spark.mirror.plan import CopyState, Work, beyond, departed, plan, without_copy
from highwater.spark.mirror.progress import MirrorProgress, progress_of
from highwater.spark.mirror.request import MirrorRequest
from highwater.spark.mirror.target import (
    OFFSETS_CONFIGS,
    TargetCluster,
    batch_bytes,
    copied_configs,
)
from highwater.spark.mirror.writer import COLUMNS, Place, Written, note_end, write_rows
from highwater.spark.stream_source import EARLIEST, LATEST
from highwater.spark.topic_range import OffsetRange, ReadOptions, read_ranges

_SEVERITY: Final = (Trouble.TAKEN_OVER, Trouble.REFUSED, Trouble.FAILED, Trouble.AWAY)
"""Of several failures, the one that ends the round is the first of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round did. `is_idle`: nothing was to be done. `failures`, the worst first, are not told yet."""

    progress: MirrorProgress
    gone: tuple[Gone, ...]
    is_idle: bool
    failures: tuple[Failure, ...]


class SourceRun:
    """The rounds of one source. `tell` gets sentences for the operator. Close it."""

    def __init__(
        self,
        spark: SparkSession,
        source: Source,
        request: MirrorRequest,
        *,
        clients: TargetClients,
        kafka: Mapping[str, str],
        tell: Callable[[str], None],
    ) -> None:
        """`kafka` are the connector's options for the source. Raise what `Brokers` and `Admission` raise."""
        self.source = source
        self._spark = spark
        self._request = request
        self._clients = clients
        self._tell = tell
        self._read = ReadOptions(
            bootstrap=source.bootstrap, read_committed=request.read_committed, kafka=kafka
        )
        self._target = TargetCluster(clients)
        self._log = OffsetLog(clients, offsets_topic(source.alias))
        self._brokers = Brokers(spark, source.bootstrap, kafka)
        self._admission: Admission | None = None
        self._configs: dict[str, int] = {}
        self._starts: dict[TopicPartition, int] | None = None
        self._goal: dict[TopicPartition, int] | None = None
        self._round = 0
        self._told: frozenset[str] = frozenset()
        self._topic_names: frozenset[str] = frozenset()

    def close(self) -> None:
        """Closes the client of the source."""
        self._brokers.close()

    def round(self) -> Round:
        """Copies what is new, up to a round's limit. Raises UsageError, RetriableError, and Spark's errors."""
        started = time.monotonic()
        topics = self._topics()
        admission = self._opened()
        ids = [
            transactional_id(self.source.alias, name, number)
            for name, topic in topics.items()
            for number in range(topic.partitions)
        ]
        self._log.catch_up(ids)
        names = admission.admit(topics)
        topics = {name: topics[name] for name in names}
        copies = self._copies(topics, names)
        offered = offers_of(self._brokers, topics, read_committed=self._request.read_committed)
        if self._starts is None:
            self._starts = self._first_starts(without_copy(offered, names, self._log.known))
            # What comes later is for the next run, or it would never end.
            self._goal = ends(offered) if self._request.once else None
        hidden = beyond(offered, names, copies, self._log.known)
        decided = plan(
            offered, names, copies, self._log.known,
            starts=self._starts, goal=self._goal, offsets_max=self._request.offsets_max,
            high_watermarks=self._brokers.latest(hidden, read_committed=False) if hidden else {},
        )  # fmt: skip
        gone = departed(
            self._log.known, self._topic_names, self._request.pattern, self.source.alias
        )
        self._say((*gone, *decided.told))
        written = self._copy(decided.work)
        changed = self._changed({each.topic: topics[each.topic] for each in decided.work})
        self._round += 1
        return Round(
            progress=progress_of(
                self.source.alias, self._round, offered, decided.positions, written,
                seconds=time.monotonic() - started,
            ),
            gone=decided.gone,
            is_idle=not decided.work,
            failures=(*worst_first(written), *changed),
        )  # fmt: skip

    def _opened(self) -> Admission:
        """Returns what admits topics; the offsets topic is made the first time."""
        if self._admission is None:
            # Before anything is made in the target: it may be the source itself.
            made = Admission(
                self.source, self._request, source_id=self._brokers.cluster_id(), log=self._log,
                target=self._target, clients=self._clients, tell=self._tell,
                at_source=lambda: copies_at(self._spark, self._brokers, self._read),
            )  # fmt: skip
            topic = offsets_topic(self.source.alias)
            if self._target.create(topic, partitions=1, configs=OFFSETS_CONFIGS):
                self._tell(f"{topic} is made: it says how far {self.source.alias} is copied")
            self._admission = made
        return self._admission

    def _topics(self) -> dict[str, TopicState]:
        found = self._brokers.topics(self._request.topics, self._request.pattern)
        self._topic_names = frozenset(found)
        return {name: topic for name, topic in found.items() if not is_offsets_topic(name)}

    def _say(self, sentences: Sequence[str]) -> None:
        """Tells what the last round has not told: rounds come every second, and what they find may stay."""
        for sentence in sentences:
            if sentence not in self._told:
                self._tell(sentence)
        self._told = frozenset(sentences)

    def _changed(self, topics: Mapping[str, TopicState]) -> list[Failure]:
        """Nothing in a record says which topic of this name it is of."""
        return [
            Failure(
                trouble=Trouble.FAILED,
                text=f"topic {name} was deleted or made anew while it was copied: what was copied last may be "
                "of the new one",
            )
            for name in (self._brokers.changed(topics) if topics else ())
        ]

    def _copies(
        self, topics: Mapping[str, TopicState], names: Mapping[str, str]
    ) -> dict[str, CopyState]:
        """Returns the copies of topics, made and grown where need be."""
        there = self._target.topics(names.values())
        missing = [name for name in names if names[name] not in there]
        small = [
            name
            for name, topic in topics.items()
            if names[name] in there and there[names[name]].partitions < topic.partitions
        ]
        configs = self._brokers.topic_configs(missing) if missing else {}
        for name in missing:
            self._make(names[name], topics[name].partitions, copied_configs(configs[name]))
        for name in small:
            self._target.grow(names[name], topics[name].partitions)
            self._tell(f"{names[name]} has {topics[name].partitions} partitions now")
        if missing or small:
            there = self._target.topics(names.values())
        if gone := sorted(set(names.values()).difference(there)):
            text = f"topic {gone[0]} at {self._clients.bootstrap} has no leaders"
            raise error_of(Failure(trouble=Trouble.AWAY, text=text))
        unknown = [name for name, topic in there.items() if topic.topic_id not in self._configs]
        for name, found in self._target.configs(unknown).items():
            self._configs[there[name].topic_id] = batch_bytes(name, found)
        return {
            name: CopyState(
                topic_id=topic.topic_id,
                partitions=topic.partitions,
                batch_bytes=self._configs[topic.topic_id],
            )
            for name, topic in there.items()
        }

    def _make(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        if self._target.create(name, partitions=partitions, configs=configs):
            own = "".join(f", {key}={value}" for key, value in configs.items())
            self._tell(f"{name} is made, partitions={partitions}{own}")

    def _first_starts(self, offered: Mapping[str, Offered]) -> dict[TopicPartition, int]:
        """Returns where the partitions of topics begin that have no copy when the run begins.

        Others begin with their first record, also those that come later. The run keeps the answer: what its
        first round could not copy begins there again.
        """
        starting = self._request.starting
        if starting == EARLIEST or not offered:
            return {}
        found = ends(offered)
        return found if starting == LATEST else found | self._brokers.at_time(found, int(starting))

    def _copy(self, works: Sequence[Work]) -> list[Written]:
        """Does the work, a task for each partition."""
        place = Place(clients=self._clients, alias=self.source.alias, read_to=self._log.next)
        ranges = [
            OffsetRange(topic=each.topic, partition=each.partition, start=each.start, end=each.end)
            for each in works
            if each.start < each.end
        ]
        written: list[Written] = []
        if ranges:
            frame: Any = read_ranges(self._spark, ranges, self._read)
            rows = frame.withColumn("ms", f.unix_millis("timestamp")).select(*COLUMNS)
            by_place = {(each.topic, each.partition): each for each in works}
            task = partial(write_rows, works=by_place, place=place)
            written = rows.rdd.mapPartitions(task).collect()
        # Spark has raised no error, so each task got all rows of its range: only here that is known.
        if rest := unfinished(works, written):
            left = self._spark.sparkContext.parallelize(rest, len(rest))
            written += left.map(partial(note_end, place=place)).collect()
        return written


def unfinished(works: Sequence[Work], written: Iterable[Written]) -> list[Work]:
    """Returns the work whose end no sync says yet, though all of its rows are written.

    Its range ends with markers, with records that were aborted or compacted away, or has no record at all:
    then its task, which knows by a row whose it is, has told nothing.
    """
    by_place = {(each.topic, each.partition): each for each in written}
    found = []
    for work in works:
        done = by_place.get((work.topic, work.partition))
        if done is None or (done.failure is None and done.next < work.end):
            found.append(work)
    return found


def worst_first(written: Sequence[Written]) -> tuple[Failure, ...]:
    """Returns the failures, the one to end with first."""
    failures = [each.failure for each in written if each.failure is not None]
    return tuple(sorted(failures, key=lambda each: _SEVERITY.index(each.trouble)))


def ends(offered: Mapping[str, Offered]) -> dict[TopicPartition, int]:
    """Returns the end of each partition."""
    return {
        TopicPartition(name, number): latest
        for name, offer in offered.items()
        for number, (_, latest) in offer.bounds.items()
    }
