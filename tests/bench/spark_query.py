"""The query of the stream rows: from a topic to another one of the same broker.

It is `read_stream`, `StreamRun` with `every_s=0` (the next batch begins when the last one has ended) and
`topic_sink.send`: records are read, kept, counted and sent on with acks=all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from tests.bench.spark_checkpoint import committed, read_batches
from tests.support.process import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from highwater.spark.stream_run import StreamRun

PARTITIONS = 4
DRAIN_S = 600.0
READ_TIMEOUT_S = 300.0


class Query:
    """The query: `start`, any of the others, `stop`."""

    def __init__(
        self, *, spark: SparkSession, bootstrap: str, topic: str, checkpoint: Path
    ) -> None:
        self.topic = topic
        self.sink = f"{topic}-sink"
        self.checkpoint = checkpoint
        self.bootstrap = bootstrap
        self._spark = spark
        self._run = self._make()
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-lag"})

    def start(self) -> None:
        """Starts it."""
        from highwater.spark.stream_source import StreamSource, read_stream

        self._run.start(
            read_stream(self._spark, StreamSource(bootstrap=self.bootstrap, topic=self.topic))
        )

    def look(self) -> None:
        """Waits a second. Raises what ended the query."""
        self._run.wait()
        self._run.look()

    def lag(self) -> int:
        """Records of the topic that are in no committed batch."""
        ends: Iterator[int] = (
            self._consumer.get_watermark_offsets(
                TopicPartition(self.topic, number), timeout=READ_TIMEOUT_S
            )[1]
            for number in range(PARTITIONS)
        )
        return sum(ends) - committed(read_batches(self.checkpoint))

    def wait_for(self, records: int) -> None:
        """Returns when so many are committed. Raises TimeoutError."""

        def are_done() -> bool:
            self._run.look()
            return committed(read_batches(self.checkpoint)) >= records

        wait_until(are_done, timeout_s=DRAIN_S, what=f"commits of {records} records")

    def stop(self) -> None:
        """Ends it after the batch under way, which is given up if it takes long."""
        self._consumer.close()
        try:
            self._run.end_batch()
        finally:
            self._run.stop()

    def _make(self) -> StreamRun:
        from highwater.spark.stream_run import RunOptions, StreamRun
        from highwater.spark.topic_sink import TopicSink, send

        sink = TopicSink(bootstrap=self.bootstrap, topic=self.sink)

        def send_on(rows: DataFrame, _number: int) -> None:
            send(rows.selectExpr("cast(key as string) key", "cast(value as string) value"), sink)

        options = RunOptions(
            name=self.topic, checkpoint=str(self.checkpoint), once=False, every_s=0,
            output_mode="append",
        )  # fmt: skip
        return StreamRun(options, send_on, stopping=lambda: False, tell=lambda _: None)
