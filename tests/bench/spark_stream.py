"""A small query of our own library, from a topic to a topic of the same broker: its latency, its largest rate."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from tests.bench import load
from tests.bench.peer import Peer
from tests.bench.spark_checkpoint import Created, latencies_ms, percentile, read_batches
from tests.bench.spark_comparison import Comparison, compare, in_turns
from tests.bench.spark_query import PARTITIONS, READ_TIMEOUT_S, Query
from tests.bench.spark_steady import GROWTH_MAX, SENT_MIN, STEPS_UP_MAX, climb, is_steady, rate_of
from tests.bench.spark_topics import TOPIC_CONFIGS
from tests.conformance.topics import make_topic
from tests.support.maven import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Kafka's latency to ours, and our largest rate to Kafka's.
TARGET = 1.0
PERCENTILES = (50, 99)
RECORDS_PER_BATCH = 50
BATCH_BYTES = 11_000  # Records of about 200 B, as those of the paced producer.
CONNECTIONS = 4
PRODUCER_SLACK_S = 300.0
LAG_SAMPLES_MIN = 3


class StreamFailed(RuntimeError):
    """The producer failed, or records are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamScale:
    """Lengths and rates: latency at `rate` for `seconds` after `warm_up_s`; steps of `step_s` from
    `first_rate` on. Rates are records a second.
    """

    rate: float = 2_000.0
    seconds: float = 60.0
    warm_up_s: float = 20.0
    first_rate: float = 5_000.0
    step_s: float = 30.0
    steps_max: int = STEPS_UP_MAX
    growth_max: float = GROWTH_MAX
    sent_min: float = SENT_MIN


class Streams:
    """Queries in a session, each with topics and a checkpoint of its own, which are removed afterwards."""

    def __init__(
        self, spark: SparkSession, scratch: Path, scale: StreamScale, tell: Callable[[str], None]
    ) -> None:
        self._spark = spark
        self._scratch = scratch
        self._scale = scale
        self._tell = tell
        self._number = 0
        self._is_warm = False

    def latency(self, peers: Sequence[Peer], *, row: str, pairs: int) -> list[Comparison]:
        """One comparison for each of PERCENTILES. Raises StreamFailed."""

        def run(peer: Peer) -> tuple[float, ...]:
            found = self.latencies(peer)
            shown = tuple(percentile(found, percent) for percent in PERCENTILES)
            self._tell(f"{row}, {peer.name}: p50 {shown[0]:,.0f} ms, p99 {shown[1]:,.0f} ms")
            return shown

        runs = in_turns(peers, pairs, run)
        return [
            compare(
                f"{row} p{percent}", "ms", peers, [tuple(v[i] for v in each) for each in runs],
                less_is_better=True, targets={peer.name: TARGET for peer in peers[:1]},
            )
            for i, percent in enumerate(PERCENTILES)
        ]  # fmt: skip

    def largest_rate(self, peers: Sequence[Peer], *, row: str, pairs: int) -> Comparison:
        """The largest steady rate. Raises NeverSteady.

        The first use in the session begins with a step that is not judged: Java compiles meanwhile.
        """
        # Later pairs begin a step below what was found, on the same steps.
        starts = {peer.name: 0 for peer in peers}
        scale = self._scale
        if not self._is_warm:
            self.is_steady_at(peers[0], rate_of(0, scale.first_rate))
            self._is_warm = True

        def run(peer: Peer) -> float:
            step = climb(
                starts[peer.name],
                lambda step: self.is_steady_at(peer, rate_of(step, scale.first_rate)),
                top=scale.steps_max,
            )
            starts[peer.name] = step - 1
            self._tell(f"{row}, {peer.name}: {rate_of(step, scale.first_rate):,} records/s")
            return float(rate_of(step, scale.first_rate))

        values = in_turns(peers, pairs, run)
        return compare(
            row, "records/s", peers, values, targets={peer.name: TARGET for peer in peers[:1]}
        )

    def latencies(self, peer: Peer) -> list[float]:
        """Of all records that came after the warm-up, in ms. Raises StreamFailed, NotCommitted."""
        scale = self._scale
        seconds = scale.warm_up_s + scale.seconds
        with self._query(peer) as query:
            sent = _produce(query, scale.rate, seconds)
            query.wait_for(sent)
            records = _created(peer.bootstrap, query.topic)
            batches = read_batches(query.checkpoint)
        if len(records) != sent:
            raise StreamFailed(f"{peer.name}: {sent} records sent, {len(records)} there")
        measured_from = min(each.time_ms for each in records) + scale.warm_up_s * 1000
        return latencies_ms((each for each in records if each.time_ms >= measured_from), batches)

    def is_steady_at(self, peer: Peer, rate: int) -> bool:
        """Whether lag stays as it is at so many records a second. Passes on LoadFailed."""
        seconds = self._scale.step_s
        with self._query(peer) as query, ThreadPoolExecutor(1) as pool:
            sending = pool.submit(
                load.send_at_rate,
                load.Target(bootstrap=peer.bootstrap, topic=query.topic),
                requests_per_s=rate / RECORDS_PER_BATCH, seconds=seconds,
                batch_bytes=BATCH_BYTES, records_per_batch=RECORDS_PER_BATCH,
                connections=CONNECTIONS, partitions=PARTITIONS,
            )  # fmt: skip
            lags = []
            while not sending.done():
                query.look()
                lags.append(query.lag())
            sent = sending.result().requests * RECORDS_PER_BATCH / (rate * seconds)
        if sent < self._scale.sent_min:
            self._tell(f"  {peer.name}: {rate:,} records/s: only {sent:.0%} could be sent")
            return False
        steady = len(lags) >= LAG_SAMPLES_MIN and is_steady(
            lags, rate=rate, seconds=seconds, growth_max=self._scale.growth_max
        )
        self._tell(
            f"  {peer.name}: {rate:,} records/s: {'steady' if steady else 'lag grows'}, "
            f"{lags[-1]:,} behind"
        )
        return steady

    @contextlib.contextmanager
    def _query(self, peer: Peer) -> Iterator[Query]:
        self._number += 1
        query = Query(
            spark=self._spark,
            bootstrap=peer.bootstrap,
            topic=f"spark-stream-{self._number}",
            checkpoint=self._scratch / f"checkpoint-{self._number}",
        )
        for topic in (query.topic, query.sink):
            make_topic(peer.bootstrap, topic, partitions=PARTITIONS, configs=TOPIC_CONFIGS)
        try:
            query.start()
            try:
                yield query
            finally:
                query.stop()
        finally:
            shutil.rmtree(query.checkpoint, ignore_errors=True)
            for topic in (query.topic, query.sink):
                peer.delete_topic(topic)


def _produce(query: Query, rate: float, seconds: float) -> int:
    """Runs the paced producer beside the query; returns how many records it sent."""
    command = [
        sys.executable, "-m", "tests.bench.paced_producer", "--bootstrap", query.bootstrap,
        "--topic", query.topic, "--partitions", str(PARTITIONS),
        "--rate", str(rate), "--seconds", str(seconds),
    ]  # fmt: skip
    deadline = time.monotonic() + seconds + PRODUCER_SLACK_S
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    raise StreamFailed(f"the producer did not end within {seconds:g} s and more")
                query.look()
        finally:
            process.kill()
        output, _ = process.communicate()
    told = json.loads(output) if output else {}
    if process.returncode != 0:
        raise StreamFailed(f"the producer ended with {process.returncode}: {told}")
    return int(told["sent"])


def _created(bootstrap: str, topic: str) -> list[Created]:
    """All records of the topic. Raises StreamFailed if they do not come in time."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-read-back"})
    found: list[Created] = []
    deadline = time.monotonic() + READ_TIMEOUT_S
    try:
        places = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
        total = sum(
            consumer.get_watermark_offsets(each, timeout=READ_TIMEOUT_S)[1] for each in places
        )
        consumer.assign(places)
        while len(found) < total:
            if time.monotonic() > deadline:
                raise StreamFailed(f"{topic}: read {len(found)} of {total} records")
            for message in consumer.consume(1000, timeout=1.0):
                if message.error() is None:
                    place = (message.partition(), message.offset())
                    found.append(Created(*place, message.timestamp()[1]))
    finally:
        consumer.close()
    return found
