"""Which topics of a source are copied: claims of copies, and checks against loops and strangers' records.

A copy is claimed before the last look, for loops and for claims of others: of two mirrors that start at once, in
opposite directions or with one copy, at least one sees the other's claim, and takes its own back. Perhaps both do.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from highwater.model.errors import UsageError
from highwater.spark.brokers import Brokers
from highwater.spark.load_run import offers_of
from highwater.spark.mirror.clients import (
    CopyRefused,
    Failure,
    TargetClients,
    Trouble,
    error_of,
)
from highwater.spark.mirror.loops import comes_back, conflict, wanted_copy
from highwater.spark.mirror.naming import Source, is_offsets_topic, offsets_topic
from highwater.spark.mirror.offset_log import OPEN_WAIT_S, OffsetLog, read_part
from highwater.spark.mirror.offset_map import OffsetMap
from highwater.spark.mirror.offset_records import Copy, Withdrawn, parse
from highwater.spark.mirror.request import MirrorRequest
from highwater.spark.mirror.target import TargetCluster
from highwater.spark.topic_range import OffsetRange, ReadOptions, read_ranges

_COPY_KEYS: Final = '["copy"'
"""How the keys of claims begin."""


class LoopRefused(UsageError):
    """Records would come back to the cluster that they are from."""

    reason = "LOOP_REFUSED"


def copies_at(spark: SparkSession, brokers: Brokers, read: ReadOptions) -> dict[str, Copy]:
    """Returns the topics of a source that are copies themselves, by the offsets topics there."""
    topics = brokers.existing(name for name in brokers.names() if is_offsets_topic(name))
    ranges = [
        OffsetRange(topic=name, partition=number, start=earliest, end=latest)
        for name, offer in offers_of(brokers, topics).items()
        for number, (earliest, latest) in offer.bounds.items()
    ]
    if not ranges:
        return {}
    claims = (
        read_ranges(spark, ranges, replace(read, read_committed=True))
        .where(f.col("key").cast("string").startswith(_COPY_KEYS))
        .orderBy("topic", "offset")
        .select("key", "value")
        .collect()
    )
    found = OffsetMap()
    found.apply(parse(bytes(key), None if value is None else bytes(value)) for key, value in claims)
    return found.copies


class Admission:
    """The topics of one source that are copied; one owner, for as long as the mirror runs.

    `at_source` tells which topics of the source are copies. Topics that a pattern found and that must not be
    copied are left out and told once; named ones are an error.
    """

    def __init__(
        self,
        source: Source,
        request: MirrorRequest,
        *,
        source_id: str,
        log: OffsetLog,
        target: TargetCluster,
        clients: TargetClients,
        at_source: Callable[[], dict[str, Copy]],
        tell: Callable[[str], None],
    ) -> None:
        """Raise LoopRefused if source and target are one cluster; also ClusterAway and such."""
        self._source = source
        self._request = request
        self._source_id = source_id
        self._target_id = target.cluster_id()
        if self._target_id == source_id:
            raise LoopRefused(f"{source.alias} at {source.bootstrap} is the target itself")
        self._log = log
        self._target = target
        self._clients = clients
        self._at_source = at_source
        self._tell = tell
        self._names: dict[str, str] = {}
        self._left_out: set[str] = set()

    def admit(self, topics: Iterable[str]) -> dict[str, str]:
        """Returns the names of the copies of those topics that are copied.

        Raises LoopRefused, CopyRefused, ClusterAway, MirrorFailed.
        """
        asked = sorted(topics)
        new = [each for each in asked if each not in self._names and each not in self._left_out]
        if new:
            self._claim(self._without_loops(new))
        return {each: self._names[each] for each in asked if each in self._names}

    def _without_loops(self, topics: Iterable[str]) -> dict[str, Copy]:
        """Returns the copies that topics would have, without those whose records would come back."""
        at_source = self._at_source()
        found = {}
        for topic in topics:
            name = self._request.copy_name(self._source.alias, topic)
            copy = wanted_copy(name, self._source.alias, topic, self._source_id, at_source)
            if not comes_back(copy, self._target_id):
                found[topic] = copy
                continue
            why = f"{topic} at {self._source.alias} is a copy of the target's own records"
            if topic in self._request.topics:
                raise LoopRefused(f"{why}: they would come back")
            self._tell(f"{why}: it is not copied back")
            self._left_out.add(topic)
        return found

    def _claim(self, copies: Mapping[str, Copy]) -> None:
        self._check_claims(copies.values())
        self._check_records(copies.values())
        known = self._log.known.copies
        claims = [each for each in copies.values() if known.get(each.topic) != each]
        if claims:
            fresh = [Withdrawn(topic=each.topic) for each in claims if each.topic not in known]
            self._log.write(claims)
            try:
                self._check_claims(copies.values())
                stay = self._without_loops(copies)
            except Exception:
                # Whatever it is, Spark's errors too: a claim that nobody looked behind may be the second one.
                if fresh:
                    self._log.write(fresh)
                raise
            stay_names = {each.topic for each in stay.values()}
            if gone := [each for each in fresh if each.topic not in stay_names]:
                self._log.write(gone)
            copies = stay
        self._names |= {topic: copy.topic for topic, copy in copies.items()}

    def _check_claims(self, copies: Iterable[Copy]) -> None:
        claimed = [*self._log.known.copies.values(), *self._copies_of_others()]
        for copy in copies:
            why = conflict(copy, claimed)
            if why is not None:
                raise CopyRefused(why)

    def _check_records(self, copies: Iterable[Copy]) -> None:
        own = self._log.known.copies
        unclaimed = [each.topic for each in copies if each.topic not in own]
        there = self._target.topics(unclaimed)
        for copy in copies:
            found = there.get(copy.topic)
            if (
                found is not None
                and not self._request.append
                and self._target.has_records(copy.topic, found.partitions)
            ):
                raise CopyRefused(
                    f"{copy.topic} at the target has records that no mirror wrote: --append copies behind "
                    "them, --prefix into another topic"
                )

    def _copies_of_others(self) -> list[Copy]:
        """Returns what other sources' mirrors have claimed at the target, all of it: raises ClusterAway otherwise."""
        found: list[Copy] = []
        for topic in sorted(self._target.names()):
            if is_offsets_topic(topic) and topic != offsets_topic(self._source.alias):
                # A claim may stand behind the transaction of a task that copies something else.
                part = read_part(self._clients, topic, 0, wait_s=OPEN_WAIT_S)
                if not part.is_whole:
                    text = f"a transaction in {topic} stays open: there may be claims of copies behind it"
                    raise error_of(Failure(trouble=Trouble.AWAY, text=text))
                theirs = OffsetMap()
                theirs.apply(part.records)
                found += theirs.copies.values()
        return found
