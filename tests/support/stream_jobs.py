"""Streaming jobs in the tests' own session, what they wrote to topics, and jobs as processes to kill."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, TopicPartition

from highwater.spark.access_events import AccessEvent, parse_line
from highwater.spark.jobs.replay import SAMPLE
from highwater.spark.watch.minute import Minute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from highwater.spark.jobs.stream_command import StreamJob

READ_TIMEOUT_S = 60.0
KILL_TIMEOUT_S = 240.0
END_TIMEOUT_S = 280.0


def sample_events() -> list[AccessEvent]:
    """The sample log by plain Python, in the order of time."""
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    return sorted(filter(None, map(parse_line, lines)), key=lambda event: event.time)


def make_job(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    checkpoint: Path,
    name: str,
    *,
    offsets_per_batch: int,
    json_fields: str | None = None,
    html: Path | None = None,
    quarantine: Path | None = None,
    table_format: str = "delta",
    ahead_s: int = 300,
) -> StreamJob:
    """A job that ends with what is there, as `stream_command.started` makes it, in a session that stays."""
    from types import SimpleNamespace

    from highwater.spark import checkpoint as checkpoints
    from highwater.spark.events import EventFormat, parse_fields
    from highwater.spark.jobs.stream_command import StreamJob, StreamOptions
    from highwater.spark.page.files import PageFiles
    from highwater.spark.stream_source import StreamSource
    from highwater.spark.stream_topics import StreamTopics
    from highwater.spark.tables import TableFormat
    from highwater.spark.tables.hadoop_files import HadoopFiles

    place = str(checkpoint)
    stop: Any = SimpleNamespace(asked=lambda: False)
    options = StreamOptions(
        bootstrap=bootstrap, topic=topic, checkpoint=place, table_format=TableFormat(table_format),
        starting="earliest", offsets_per_batch=offsets_per_batch, every_s=0, once=True,
        json_fields=json_fields, ahead=f"{ahead_s} s", as_json=True, files=PageFiles(html=html), jars=None,
        quarantine=None if quarantine is None else str(quarantine), kafka=(),
    )  # fmt: skip
    # Its client is closed with the session.
    topics = StreamTopics(spark, bootstrap)
    who = topics.identify(topic)
    mark = checkpoints.claim(HadoopFiles(spark, place), place, name, who)
    return StreamJob(
        spark=spark,
        name=name,
        options=options,
        writer=mark.writer,
        identity=who,
        topics=topics,
        source=StreamSource(bootstrap=bootstrap, topic=topic, offsets_per_batch=offsets_per_batch),
        format=EventFormat(
            names=None if json_fields is None else parse_fields(json_fields), ahead_s=ahead_s
        ),
        stop=stop,
    )


def percentile(values: list[int], percent: int) -> int | None:
    """The smallest value that so many percent do not exceed."""
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1] if values else None


def minutes_of(events: Iterable[AccessEvent], *, late_s: int) -> list[Minute]:
    """The minutes that a watermark has closed when all events have been read."""
    by_minute: dict[int, list[AccessEvent]] = defaultdict(list)
    newest_s = 0
    for event in events:
        time_s = int(event.time.timestamp())
        newest_s = max(newest_s, time_s)
        by_minute[time_s // 60 * 60].append(event)
    return [
        Minute(
            start_s=start_s,
            requests=len(found),
            errors=sum(event.status >= 500 for event in found),
            client_errors=sum(400 <= event.status < 500 for event in found),
            size_bytes=sum(event.size_bytes for event in found),
            **{
                f"size_p{each}": percentile([event.size_bytes for event in found], each)
                for each in (50, 95, 99)
            },
        )
        for start_s, found in sorted(by_minute.items())
        if start_s + 60 <= newest_s - late_s
    ]


def read_all(bootstrap: str, topic: str) -> list[tuple[str, str | None]]:
    """Keys and values of a topic's one partition, in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=READ_TIMEOUT_S)
        consumer.assign([partition])
        found: list[tuple[str, str | None]] = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while consumer.position([partition])[0].offset < end and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=1):
                assert message.error() is None, message.error()
                value = message.value()
                found.append((message.key().decode(), None if value is None else value.decode()))
    finally:
        consumer.close()
    return found


def latest(records: list[tuple[str, str | None]]) -> dict[str, str]:
    """What compaction leaves."""
    return {key: value for key, value in dict(records).items() if value is not None}


def command(name: str, *arguments: str) -> list[str]:
    """The command line of a job."""
    return [sys.executable, "-m", "highwater.spark", name, *arguments]


def start_and_kill(arguments: list[str], reached: Callable[[], bool], log: Path) -> None:
    """Starts a job, and kills its driver (Python and Java) with SIGKILL once it has `reached` a point."""
    with log.open("wb") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=out, start_new_session=True)
    try:
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while not reached():
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def finish(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a job to its end."""
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False
    )


def commits(table: Path) -> int:
    """Commits of a Delta table."""
    return len(list((table / "_delta_log").glob("*.json")))
