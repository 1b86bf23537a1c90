"""The job `mirror` beside MirrorMaker 2: a topic of Apache Kafka into Highwater, each a process of its own.

Both are started for each copy, and measured from before the first record of it to its last one. The copy is
read back: the same number of records, the same bytes of values.
"""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from tests.bench import spark_read
from tests.bench.peer import Peer
from tests.bench.spark_comparison import Comparison, Series, in_turns
from tests.bench.spark_copying import CopyFailed, Copying, copying, watch
from tests.bench.spark_read import Found
from tests.bench.spark_topics import PARTITIONS, Data, Filled, fill, plan
from tests.support.frameworks import MIRROR_MAKER, framework_command
from tests.support.java_tools import KAFKA_VERSION
from tests.support.measured_process import cpu_seconds
from tests.support.mirrored_topics import log_ends
from tests.support.process import ManagedProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COPY_TIMEOUT_S = 3600.0
TARGET_ALIAS = "target"
TASKS_MAX = 2
# Those of Kafka's own start script for it.
JVM_OPTIONS = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


class Copy(ABC):
    """One copy by a tool: source and target, the name of the source there, and a directory for files."""

    name: str
    version: str

    def __init__(self, source: Peer, target: Peer, filled: Filled, directory: Path) -> None:
        self.alias = directory.name
        self.target = target
        self.filled = filled
        self.process = ManagedProcess(
            self.name,
            self.command(source, directory),
            log_path=directory / "log",
        )

    @property
    def topic(self) -> str:
        """The copy: both tools put the source's alias before the name."""
        return f"{self.alias}.{self.filled.topic}"

    @abstractmethod
    def command(self, source: Peer, directory: Path) -> list[str]:
        """The command line of the tool."""

    @abstractmethod
    def copied(self) -> int:
        """How many records are there; not all before all are."""

    def visible(self) -> int:
        """The sum of the copy's log ends."""
        try:
            return log_ends(self.target.bootstrap, self.topic, PARTITIONS)
        except KafkaException:
            return 0  # The topic is being made; `watch` has a limit.


class MirrorJob(Copy):
    """`highwater-spark mirror`, with its defaults, up to the end of what is there."""

    name = "highwater-spark mirror"
    version = "a local session on two threads, transactions"

    def command(self, source: Peer, directory: Path) -> list[str]:
        return [
            sys.executable, "-m", "highwater.spark", "mirror", "--once", "--json", "--prefix",
            "--source", f"{directory.name}={source.bootstrap}", "--target", self.target.bootstrap,
            "--topic", self.filled.topic,
        ]  # fmt: skip

    def copied(self) -> int:
        # A log's end also counts markers and what is not committed: the job tells of what is.
        if told_records(self.process.log_path.read_text(errors="replace")) >= self.filled.records:
            return self.filled.records
        if not self.process.running:
            raise CopyFailed(f"the mirror ended\n{self.process.log_tail()}")
        return min(self.visible(), self.filled.records - 1)


class MirrorMaker2(Copy):
    """MirrorMaker 2 as a process of its own, one way, without heartbeats, checkpoints and groups."""

    name = "MirrorMaker 2"
    version = f"Apache Kafka {KAFKA_VERSION}, {TASKS_MAX} tasks, heap 2 GiB, at least once"

    def command(self, source: Peer, directory: Path) -> list[str]:
        properties = directory / "mirror-maker.properties"
        values = mirror_maker_settings(
            directory.name, source.bootstrap, self.target.bootstrap, self.filled.topic
        )
        properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        return framework_command(MIRROR_MAKER, str(properties), jvm_options=JVM_OPTIONS)

    def copied(self) -> int:
        if not self.process.running:
            raise CopyFailed(f"MirrorMaker 2 ended\n{self.process.log_tail()}")
        return self.visible()


class Mirrors:
    """Copies of one topic of `source` into `target`, each with an alias of its own."""

    def __init__(
        self, spark: SparkSession, scratch: Path, gigabytes: float, tell: Callable[[str], None]
    ) -> None:
        self._spark = spark
        self._scratch = scratch
        self._gigabytes = gigabytes
        self._tell = tell
        self._number = 0

    def measure(self, source: Peer, target: Peer, *, row: str, pairs: int) -> list[Comparison]:
        """Rates and processor times of both tools. Raises CopyFailed."""
        filled = plan("mirrored", Data.PLAIN, self._gigabytes)
        fill(source, filled)
        written = spark_read.verify(self._spark, [source], filled)
        tools = (MirrorJob, MirrorMaker2)
        found = in_turns(tools, pairs, partial(self._run, source, target, filled, written))
        source.delete_topic(filled.topic)
        return comparisons(f"{row} to {target.name}", tools, found)

    def _run(
        self, source: Peer, target: Peer, filled: Filled, written: Found, tool: type[Copy]
    ) -> Copying:
        self._number += 1
        directory = self._scratch / f"mirror{self._number}"
        directory.mkdir()
        copy = tool(source, target, filled, directory)
        copy.process.start()
        try:
            samples = watch(
                copy.copied, lambda: cpu_seconds(copy.process.pid), filled.records,
                timeout_s=COPY_TIMEOUT_S, clock=time.monotonic, pause=time.sleep,
            )  # fmt: skip
        finally:
            copy.process.stop()
        _, there = spark_read.read(self._spark, target, copy.topic)
        if there != written:
            raise CopyFailed(f"{tool.name}: {there} instead of {written}")
        target.delete_topic(copy.topic)
        done = copying(samples, filled.records)
        self._tell(
            f"{tool.name} to {target.name}: {done.records_per_s:,.0f} records/s, {done.cpu_s:.1f} s CPU"
        )
        return done


def comparisons(
    row: str, tools: Sequence[type[Copy]], found: Sequence[tuple[Copying, ...]]
) -> list[Comparison]:
    """Two of them: records/s, and the tool's processor time for all records."""

    def series(values: Callable[[Copying], float]) -> list[Series]:
        return [
            Series(name=tool.name, version=tool.version, values=tuple(map(values, each)))
            for tool, each in zip(tools, found, strict=True)
        ]

    rates, times = series(lambda each: each.records_per_s), series(lambda each: each.cpu_s)
    return [
        Comparison(row=row, unit="records/s", ours=rates[0], beside=rates[1]),
        Comparison(row=row, unit="CPU s", ours=times[0], beside=times[1], less_is_better=True),
    ]


def told_records(log: str) -> int:
    """How many records the job has told of so far, in its lines of progress."""
    documents = (json.loads(line) for line in log.splitlines() if line.startswith('{"progress"'))
    return sum(int(document["progress"]["records"]) for document in documents)


def mirror_maker_settings(alias: str, source: str, target: str, topic: str) -> dict[str, str]:
    """Its configuration for one topic, one way; what it is not asked for is off."""
    internal = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage",
                "status.storage", "config.storage")  # fmt: skip
    return {
        "clusters": f"{alias},{TARGET_ALIAS}",
        f"{alias}.bootstrap.servers": source,
        f"{TARGET_ALIAS}.bootstrap.servers": target,
        f"{alias}->{TARGET_ALIAS}.enabled": "true",
        f"{TARGET_ALIAS}->{alias}.enabled": "false",
        "topics": topic,
        "tasks.max": str(TASKS_MAX),
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "replication.factor": "1",
        **{f"{name}.replication.factor": "1" for name in internal},
        "plugin.discovery": "service_load",
    }
