"""Records with everything that a record can have, and topics read back to compare them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    Producer,
    TopicPartition,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from highwater.spark.mirror.mirror_run import MirrorRun
    from highwater.spark.mirror.progress import MirrorProgress

TIMEOUT_S = 60.0
START_MS = 1_700_000_000_000


class Record(NamedTuple):
    """What a copy has to keep."""

    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def record(number: int) -> Record:
    """The record of a number: keys, values and headers that are null, empty or there twice."""
    return Record(
        time_ms=START_MS + number * 1000,
        key=(None, b"", b"key %d" % (number % 7))[number % 3],
        value=(b"value %d" % number, None, b"", b"\x00\xff" * 20)[number % 4],
        headers=(
            (),
            (("n", b"%d" % number),),
            (("h", b"1"), ("h", None), ("h", b"2"), ("", b""), ("ä", "ö".encode())),
        )[number % 3],
    )


def produce(producer: Any, topic: str, partition: int, records: Sequence[Record]) -> None:
    """Sends records and waits for them; they may be a part of a transaction."""

    def delivered(error: Any, _: Any) -> None:
        assert error is None, error

    for each in records:
        producer.produce(
            topic, each.value, key=each.key, partition=partition, timestamp=each.time_ms,
            headers=list(each.headers), on_delivery=delivered,
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def send(bootstrap: str, topic: str, partition: int, records: Sequence[Record]) -> None:
    """Sends records by a producer of their own."""
    produce(Producer({"bootstrap.servers": bootstrap, "linger.ms": 5}), topic, partition, records)


def transaction(
    bootstrap: str, topic: str, partition: int, records: Sequence[Record], *, commit: bool
) -> None:
    """Sends records in a transaction that is committed or aborted."""
    producer: Any = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"test-{topic}"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    produce(producer, topic, partition, records)
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)


def read(bootstrap: str, topic: str, partitions: int) -> list[list[Record]]:
    """What is committed in each partition, in its order."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[list[Record]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"{topic}: {ended} of {partitions} partitions ended"
            for message in consumer.consume(1000, timeout=0.5):
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
                    continue
                kind, time_ms = message.timestamp()
                assert kind == TIMESTAMP_CREATE_TIME
                headers = tuple(message.headers() or ())
                found[message.partition()].append(
                    Record(time_ms, message.key(), message.value(), headers)
                )
    finally:
        consumer.close()
    return found


def log_ends(bootstrap: str, topic: str, partitions: int) -> int:
    """All offsets of a topic together, those of open transactions, too; 0 if it is not there."""
    consumer: Any = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        if topic not in consumer.list_topics(timeout=TIMEOUT_S).topics:
            return 0
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)[1]
            for number in range(partitions)
        )
    finally:
        consumer.close()


class Told:
    """What a mirror told."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.progress: list[MirrorProgress] = []

    @property
    def records(self) -> int:
        return sum(each.records for each in self.progress)


def mirror_once(
    spark: SparkSession, source: str, target: str, *topics: str, alias: str = "east", **more: Any
) -> Told:
    """Mirrors topics up to their ends in the session of the tests; raises what ends the mirror."""
    from highwater.spark.mirror.clients import TargetClients
    from highwater.spark.mirror.mirror_run import MirrorRun, Telling
    from highwater.spark.mirror.naming import Source
    from highwater.spark.mirror.request import MirrorRequest
    from highwater.spark.mirror.source_run import SourceRun

    told = Told()
    given = {"pattern": None, "offsets_max": 100_000} | more
    compression = given.pop("compression", "none")
    run = SourceRun(
        spark,
        Source(alias=alias, bootstrap=source),
        MirrorRequest(topics=topics, once=True, **given),
        clients=TargetClients(bootstrap=target, compression=compression),
        kafka={},
        tell=told.sentences.append,
    )
    never: Callable[[], bool] = lambda: False  # noqa: E731 # It says what it is.
    telling = Telling(sentence=told.sentences.append, progress=told.progress.append)
    mirror: MirrorRun = MirrorRun([run], stopping=never, telling=telling)
    try:
        mirror.run_once()
    finally:
        run.close()
    return told
