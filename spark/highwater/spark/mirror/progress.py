"""How far a mirror is: a round of one source as a few numbers, and as one line."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from highwater.spark.brokers import TopicPartition
from highwater.spark.load_plan import Offered
from highwater.spark.mirror.writer import Written


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress:
    """What a round did for one topic, and what the source has beyond it."""

    records: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorProgress:
    """One round of a source.

    `offsets` has the next offset of each partition of the source, as TOPIC-PARTITION; `lag` is what the
    source has beyond them, as far as the round knew. `skipped` records were in the copy already: another
    run wrote them. `moved` had the time 0, and have 1 in the copy. `by_topic` has the source's topics.
    """

    source: str
    round: int
    topics: int
    records: int
    records_per_s: float
    size_bytes: int
    transactions: int
    offsets: Mapping[str, int]
    lag: int
    skipped: int
    moved: int
    seconds: float = 0.0
    by_topic: Mapping[str, TopicProgress] = field(default_factory=dict)


def progress_of(
    source: str,
    number: int,
    offered: Mapping[str, Offered],
    positions: Mapping[TopicPartition, int],
    written: Iterable[Written],
    *,
    seconds: float,
) -> MirrorProgress:
    """Returns the progress of a round that began at `positions`."""
    done = list(written)
    reached = dict(positions)
    for each in done:
        place = TopicPartition(each.topic, each.partition)
        reached[place] = max(each.next, reached.get(place, 0))
    records = sum(each.records for each in done)
    by_topic = {
        topic: TopicProgress(
            records=sum(each.records for each in done if each.topic == topic),
            lag=sum(
                max(0, latest - reached.get(TopicPartition(topic, number), earliest))
                for number, (earliest, latest) in offer.bounds.items()
            ),
        )
        for topic, offer in sorted(offered.items())
    }
    return MirrorProgress(
        source=source,
        round=number,
        topics=len(offered),
        records=records,
        records_per_s=round(records / max(seconds, 0.001), 1),
        size_bytes=sum(each.size_bytes for each in done),
        transactions=sum(each.transactions for each in done),
        offsets={f"{place.topic}-{place.partition}": at for place, at in sorted(reached.items())},
        lag=sum(each.lag for each in by_topic.values()),
        skipped=sum(each.skipped for each in done),
        moved=sum(each.moved for each in done),
        seconds=round(seconds, 3),
        by_topic=by_topic,
    )


def describe(progress: MirrorProgress) -> str:
    """Returns one line for a person."""
    parts = [
        f"{progress.source}, round {progress.round}: {progress.records:,} records",
        f"{progress.records_per_s:,.0f} rows/s",
        f"{progress.size_bytes:,} bytes in {progress.transactions:,} transactions",
        f"offsets {sum(progress.offsets.values()):,}",
        f"lag {progress.lag:,}",
    ]
    if progress.skipped:
        parts.append(f"{progress.skipped:,} were there")
    if progress.moved:
        parts.append(f"{progress.moved:,} with time 0, which is 1 in the copy")
    return ", ".join(parts)
