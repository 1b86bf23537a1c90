"""Reading an offsets topic to its end, also behind what is open, and claims."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("confluent_kafka", reason="needs the spark extra")

from confluent_kafka import KafkaException

from highwater.spark.mirror import offset_log as module
from highwater.spark.mirror.clients import MirrorFailed
from highwater.spark.mirror.offset_log import OffsetLog, read_part
from highwater.spark.mirror.offset_records import Copy, Sync, Withdrawn, key_of, value_of
from highwater.spark.topic_admin import ClusterAway
from tests.support.fake_target import FakeProducer, FakeTarget

TOPIC = "highwater-mirror.a.offsets"
COPY = Copy(topic="t", source="a", source_topic="t", path=("A",))
SYNC = Sync(
    topic="t", partition=0, number=1, source_id="s", copy_id="c",
    source_first=0, source_next=2, copy_first=0, copy_next=2, records=2,
)  # fmt: skip


@pytest.fixture
def target() -> FakeTarget:
    return FakeTarget()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a second later."""
    times = itertools.count()
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(times)))


def begun(target: FakeTarget, transactional_id: str = "other") -> FakeProducer:
    """A transaction with a sync that nobody has ended."""
    producer = target.producer(transactional_id, 1)
    producer.init_transactions(1)
    producer.begin_transaction()
    producer.produce(TOPIC, value_of(SYNC), key=key_of(SYNC), partition=0)
    return producer


def test_claims_are_written_and_read(target: FakeTarget):
    log = OffsetLog(target, TOPIC)
    log.write([COPY])
    log.catch_up([])
    assert (log.known.copies, log.next) == ({"t": COPY}, 2)
    log.write([Withdrawn(topic="t")])
    log.catch_up([])
    assert (log.known.copies, log.next) == ({}, 4)


def test_nothing_new(target: FakeTarget):
    part = read_part(target, TOPIC, 0, wait_s=0)
    assert (part.records, part.next, part.is_whole) == ((), 0, True)


def test_what_is_open_is_not_read(target: FakeTarget):
    OffsetLog(target, TOPIC).write([COPY])
    begun(target)
    part = read_part(target, TOPIC, 0, wait_s=3)
    assert (part.records, part.next, part.is_whole) == ((COPY,), 2, False)


def test_what_ends_meanwhile_is_read(target: FakeTarget, monkeypatch: pytest.MonkeyPatch):
    producer = begun(target)
    ending = iter([lambda: None, lambda: None, lambda: producer.commit_transaction(1)])
    consumer = target.consumer(read_committed=True)
    consume = consumer.consume

    def later(count: int, timeout: float):
        next(ending, lambda: None)()
        return consume(count, timeout)

    monkeypatch.setattr(consumer, "consume", later)
    monkeypatch.setattr(
        target,
        "consumer",
        lambda *, read_committed: consumer if read_committed else FakeTarget.consumer(
            target, read_committed=False
        ),
    )  # fmt: skip
    part = read_part(target, TOPIC, 0, wait_s=60)
    assert (part.records, part.is_whole) == ((SYNC,), True)


def test_whoever_left_a_transaction_open_is_fenced(target: FakeTarget):
    producer = begun(target, "of a partition")
    log = OffsetLog(target, TOPIC)
    log.catch_up(["another", "of a partition"])
    assert log.known.newest("t", 0) is None
    with pytest.raises(KafkaException):
        producer.commit_transaction(1)


def test_a_stranger_that_keeps_a_transaction_open(target: FakeTarget):
    begun(target, "stranger")
    with pytest.raises(MirrorFailed, match="stays open"):
        OffsetLog(target, TOPIC).catch_up(["of a partition"])


def test_a_cluster_that_falls_silent(target: FakeTarget, monkeypatch: pytest.MonkeyPatch):
    OffsetLog(target, TOPIC).write([COPY])
    consumer = target.consumer(read_committed=True)
    monkeypatch.setattr(consumer, "consume", lambda count, timeout: [])
    monkeypatch.setattr(
        consumer, "get_watermark_offsets", lambda place, timeout: (0, 2), raising=False
    )
    monkeypatch.setattr(target, "consumer", lambda *, read_committed: consumer)
    with pytest.raises(ClusterAway, match="does not answer"):
        read_part(target, TOPIC, 0, wait_s=60)
