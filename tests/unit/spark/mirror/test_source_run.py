"""A round put together from fakes; tests/spark runs real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.brokers import TopicPartition, TopicState
from highwater.spark.load_plan import Offered
from highwater.spark.mirror import source_run as module
from highwater.spark.mirror.clients import Failure, Trouble
from highwater.spark.mirror.naming import Source
from highwater.spark.mirror.offset_records import Copy, Sync, key_of, parse, value_of
from highwater.spark.mirror.plan import Work
from highwater.spark.mirror.request import MirrorRequest
from highwater.spark.mirror.source_run import SourceRun, ends, unfinished, worst_first
from highwater.spark.mirror.target import TargetTopic
from highwater.spark.mirror.writer import Written
from highwater.spark.topic_admin import ClusterAway
from highwater.spark.topic_range import OffsetRange
from tests.support.fake_target import FakeTarget


class FakeBrokers:
    def __init__(self, *_: Any) -> None:
        self.there = {"t": TopicState("s", 2)}
        self.bounds = {0: (0, 8), 1: (3, 5)}
        self.closed = False
        self.anew: list[str] = []

    def changed(self, topics: Any) -> list[str]:
        return [name for name in topics if name in self.anew]

    def latest(self, places: Any, *, read_committed: bool) -> dict[TopicPartition, int]:
        assert not read_committed
        return dict.fromkeys(places, 100)

    def close(self) -> None:
        self.closed = True

    def cluster_id(self) -> str:
        return "S"

    def names(self) -> set[str]:
        return set(self.there)

    def topics(self, names: Any, pattern: Any) -> dict[str, TopicState]:
        return {**self.there, "highwater-mirror.z.offsets": TopicState("z", 1)}

    def topic_configs(self, names: Any) -> dict[str, dict[str, str]]:
        return {name: {"retention.ms": "5", "min.insync.replicas": "3"} for name in names}

    def at_time(self, places: Any, time_ms: int) -> dict[TopicPartition, int]:
        return {TopicPartition("t", 0): 6}


class FakeCluster:
    def __init__(self, *_: Any) -> None:
        self.there: dict[str, int] = {}
        self.headless = False

    def cluster_id(self) -> str:
        return "T"

    def names(self) -> set[str]:
        return set(self.there)

    def topics(self, names: Any) -> dict[str, TargetTopic]:
        return {
            name: TargetTopic(topic_id=f"id {name}", partitions=self.there[name])
            for name in names
            if name in self.there and not self.headless
        }

    def has_records(self, name: str, partitions: int) -> bool:
        return False

    def configs(self, names: Any) -> dict[str, dict[str, str]]:
        return {name: {"max.message.bytes": "777"} for name in names}

    def create(self, name: str, *, partitions: int, configs: Any) -> bool:
        is_new = name not in self.there
        self.there.setdefault(name, partitions)
        return is_new

    def grow(self, name: str, partitions: int) -> None:
        self.there[name] = partitions


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def works() -> list[tuple[Work, ...]]:
    return []


@pytest.fixture
def copied() -> Any:
    """The method that `made` replaces."""
    return SourceRun._copy


@pytest.fixture
def made(
    monkeypatch: pytest.MonkeyPatch, told: list[str], works: list[tuple[Work, ...]], copied: Any
) -> Any:
    """Makes runs of one source, whose work is noted and done by nobody."""
    brokers, cluster, target = FakeBrokers(), FakeCluster(), FakeTarget()
    monkeypatch.setattr(module, "Brokers", lambda *_: brokers)
    monkeypatch.setattr(module, "TargetCluster", lambda _: cluster)
    monkeypatch.setattr(module, "copies_at", lambda *_: {})
    monkeypatch.setattr(
        module,
        "offers_of",
        lambda _, topics, read_committed: {
            name: Offered(topic_id="s", bounds=dict(brokers.bounds)) for name in topics
        },
    )

    def copy(self: SourceRun, work: tuple[Work, ...]) -> list[Written]:
        works.append(work)
        return [Written(topic=each.topic, partition=each.partition, next=each.end) for each in work]

    monkeypatch.setattr(SourceRun, "_copy", copy)

    def make(**request: Any) -> SourceRun:
        given = {"topics": ("t",), "pattern": None, "offsets_max": 100} | request
        clients: Any = target
        return SourceRun(
            None, Source(alias="a", bootstrap="h:1"), MirrorRequest(**given),
            clients=clients, kafka={}, tell=told.append,
        )  # fmt: skip

    make.brokers, make.cluster, make.target = brokers, cluster, target
    return make


def ranges(work: tuple[Work, ...]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in work]


def test_a_first_round(made: Any, told: list[str], works: list[tuple[Work, ...]]):
    run = made(prefixed=True)
    done = run.round()
    assert told == [
        "highwater-mirror.a.offsets is made: it says how far a is copied",
        "a.t is made, partitions=2, retention.ms=5",
        "topic t begins at offset 3 of partition 1: what was before is not in the log any more",
    ]
    assert ranges(works[0]) == [(0, 0, 8), (1, 3, 5)]
    assert works[0][0].copy == "a.t"
    assert works[0][0].copy_id == "id a.t"
    assert works[0][0].batch_bytes == 777
    assert done.progress.lag == 0
    assert (done.is_idle, done.gone, done.failures) == (False, (), ())
    run.close()
    assert made.brokers.closed


@pytest.mark.parametrize(
    ("starting", "begins"),
    [
        ("earliest", [(0, 0, 8), (1, 3, 5)]),
        ("latest", [(0, 8, 8), (1, 5, 5)]),
        (9, [(0, 6, 8), (1, 5, 5)]),
    ],
)
def test_where_partitions_begin(
    made: Any,
    works: list[tuple[Work, ...]],
    starting: str | int,
    begins: list[tuple[int, int, int]],
):
    run = made(starting=starting)
    run.round()
    assert ranges(works[0]) == begins
    # What was not done begins there again; a partition that has come since, with its first record.
    made.brokers.bounds = {0: (0, 9), 1: (3, 5), 2: (1, 4)}
    made.brokers.there = {"t": TopicState("s", 3)}
    run.round()
    assert ranges(works[1]) == [
        (0, begins[0][1], 9), (1, begins[1][1], 5), (2, 1, 4),
    ]  # fmt: skip
    assert made.cluster.there["t"] == 3


@pytest.mark.parametrize("starting", ["latest", 9])
def test_a_partition_that_came_while_the_mirror_was_down(
    made: Any, works: list[tuple[Work, ...]], starting: str | int
):
    sync = Sync(
        topic="t", partition=0, number=1, source_id="s", copy_id="id t",
        source_first=5, source_next=8, copy_first=0, copy_next=3, records=3,
    )  # fmt: skip
    producer = made.target.producer("x", 1)
    producer.init_transactions(1)
    producer.begin_transaction()
    producer.produce("highwater-mirror.a.offsets", value_of(sync), key=key_of(sync), partition=0)
    producer.commit_transaction(1)
    made.brokers.bounds = {0: (0, 8), 1: (0, 50)}
    made(starting=starting).round()
    assert ranges(works[0]) == [(1, 0, 50)]


def test_once_ends_with_what_was_there(made: Any, works: list[tuple[Work, ...]]):
    run = made(once=True)
    run.round()
    made.brokers.bounds = {0: (0, 20), 1: (3, 5)}
    run.round()
    assert ranges(works[1]) == [(0, 0, 8), (1, 3, 5)]


def test_a_copy_without_leaders(made: Any):
    made.cluster.headless = True
    with pytest.raises(ClusterAway, match="has no leaders"):
        made().round()


def test_claims_are_there_before_work(made: Any):
    made().round()
    ((_, entry),) = made.target.committed("highwater-mirror.a.offsets", 0)
    assert parse(entry.key, entry.value) == Copy(
        topic="t", source="a", source_topic="t", path=("S",)
    )


class FakeFrame:
    """A frame and its RDD: every range is a partition whose rows are those of `rows` that it has."""

    def __init__(self, rows: list[Any], ranges: list[OffsetRange]) -> None:
        self._rows, self._ranges = rows, ranges

    def withColumn(self, *_: Any) -> FakeFrame:
        return self

    def select(self, *_: str) -> FakeFrame:
        return self

    @property
    def rdd(self) -> FakeFrame:
        return self

    def mapPartitions(self, task: Any) -> FakeResults:
        return FakeResults(
            done
            for each in self._ranges
            for done in task(
                row
                for row in self._rows
                if row[1] == each.partition and each.start <= row[2] < each.end
            )
        )


class FakeResults:
    def __init__(self, results: Any) -> None:
        self._results = results

    def map(self, function: Any) -> FakeResults:
        return FakeResults(map(function, self._results))

    def collect(self) -> list[Any]:
        return list(self._results)


class FakeSpark:
    def __init__(self) -> None:
        self.sparkContext = self

    def parallelize(self, items: Any, _: int) -> FakeResults:
        return FakeResults(items)


def test_what_ends_without_a_record_is_noted_when_all_tasks_are_done(
    made: Any, monkeypatch: pytest.MonkeyPatch, copied: Any
):
    """Partition 0 has a record at the end of its range, 1 has none there, and 2 has none at all."""
    rows = [("t", number, at, 1, None, b"", None) for number, at in ((0, 0), (0, 7), (1, 3))]
    monkeypatch.setattr(SourceRun, "_copy", copied)
    monkeypatch.setattr(module, "f", SimpleNamespace(unix_millis=lambda _: None))
    monkeypatch.setattr(module, "read_ranges", lambda _, ranges, __: FakeFrame(rows, ranges))
    made.brokers.bounds = {0: (0, 8), 1: (3, 5), 2: (0, 4)}
    made.brokers.there = {"t": TopicState("s", 3)}
    run = made()
    run._spark = FakeSpark()
    done = run.round()
    assert (done.failures, done.progress.lag, done.progress.records) == ((), 0, 3)
    assert done.progress.offsets == {"t-0": 8, "t-1": 5, "t-2": 4}
    assert done.progress.transactions == 4
    assert run.round().is_idle


def test_work_that_failed_is_not_ended():
    def work(number: int) -> Work:
        return Work(
            topic="t", partition=number, start=0, end=9, source_id="s", copy="t", copy_id="c",
            batch_bytes=1, newest=None,
        )  # fmt: skip

    def written(number: int, after: int, found: Failure | None = None) -> Written:
        return Written(topic="t", partition=number, next=after, failure=found)

    works = [work(number) for number in range(4)]
    away = Failure(trouble=Trouble.AWAY, text="")
    done = [written(0, 9), written(1, 8), written(2, 5, away)]
    assert unfinished(works, done) == [works[1], works[3]]


def test_the_worst_failure_comes_first():
    def written(trouble: Trouble | None) -> Written:
        found = None if trouble is None else Failure(trouble=trouble, text=trouble)
        return Written(topic="t", partition=0, next=0, failure=found)

    found = worst_first([written(each) for each in (Trouble.AWAY, None, Trouble.REFUSED)])
    assert [each.trouble for each in found] == [Trouble.REFUSED, Trouble.AWAY]
    assert worst_first([written(None)]) == ()


def test_ends():
    offered = {"t": Offered(topic_id="s", bounds={0: (1, 3), 2: (0, 0)})}
    assert ends(offered) == {TopicPartition("t", 0): 3, TopicPartition("t", 2): 0}


def test_a_topic_that_was_made_anew_while_it_was_copied(made: Any):
    made.brokers.anew = ["t"]
    (found,) = made().round().failures
    assert found.trouble is Trouble.FAILED
    assert "topic t was deleted or made anew while it was copied" in found.text


def test_what_stays_is_told_once(made: Any, told: list[str]):
    run = made()
    for sentences in (["a", "b"], ["b"], ["a"]):
        run._say(sentences)
    assert told == ["a", "b", "a"]
