"""The word count of `tools/frameworks/WordCount.java`, from its topics to what it has counted."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.frameworks.committed_reader import CommittedReader, Record
from tests.conformance.topics import make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.frameworks import FRAMEWORK_TIMEOUT_S, program_command
from tests.support.process import ManagedProcess, wait_until

PARTITIONS = 2
_TICKS = tuple(f"tick{number}" for number in range(8))
"""Words that are written only to make the application commit, and so purge, in every partition."""

_WORDS = tuple(f"word{number}" for number in range(40))
_WORDS_PER_LINE = 5
_LOG_START, _END = 0, 1


class WordCount:
    """The application with its topics, and what was given to it.

    Lifecycle: the topics are made with the object; `start`, then any of `kill` and `start` again,
    and `stop`. One thread.
    """

    def __init__(
        self, cluster: Cluster, directory: Path, *, guarantee: str, replication: int
    ) -> None:
        self.application = unique_name("word-count")
        self.input, self.output = f"{self.application}-lines", f"{self.application}-totals"
        self.given: Counter[str] = Counter()
        self._bootstrap = cluster.bootstrap
        self._directory = directory
        self._guarantee = guarantee
        for topic in (self.input, self.output):
            make_topic(self._bootstrap, topic, partitions=PARTITIONS, replication=replication)
        # All that is written is acknowledged by replicas that outlive the killed node, once.
        self._producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 3,
            }
        )
        self._chance = random.Random(self.application)
        self._starts = 0
        self._process: ManagedProcess | None = None

    @property
    def process(self) -> ManagedProcess:
        assert self._process is not None, "not started"
        return self._process

    def start(self) -> None:
        """Starts it with an empty state directory: its store has to come from the changelog."""
        self._starts += 1
        state = self._directory / f"state-{self._starts}"
        self._process = ManagedProcess(
            self.application,
            program_command(
                "WordCount",
                *(self._bootstrap, self.application, self.input, self.output),
                *(self._guarantee, str(state)),
            ),
            log_path=self._directory / f"word-count-{self._starts}.log",
        )
        self._process.start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def log_tail(self) -> str:
        return "(not started)" if self._process is None else self._process.log_tail()

    def write(self, lines: int) -> None:
        """Writes lines of words; returns when all are acknowledged."""
        for _ in range(lines):
            self._write_line(self._chance.choices(_WORDS, k=_WORDS_PER_LINE))
        self._flush()

    def tick(self) -> None:
        self._write_line(list(_TICKS))
        self._flush()

    def _write_line(self, words: list[str]) -> None:
        self.given.update(words)
        self._producer.produce(self.input, " ".join(words).encode(), on_delivery=_check)
        self._producer.poll(0)

    def _flush(self) -> None:
        assert self._producer.flush(CLIENT_TIMEOUT_S) == 0

    def wait_for_counts(self, reader: CommittedReader, *, at_least: bool = False) -> None:
        """Waits until every word has its count, or `at_least` that."""

        def counted() -> bool:
            assert self.process.running, "Streams gave up"
            found = totals(reader.read())
            if at_least:
                return all(found[word] >= count for word, count in self.given.items())
            return found == self.given

        wait_until(counted, timeout_s=FRAMEWORK_TIMEOUT_S, what="the counts", poll_s=0)

    def wait_for_purge(self) -> None:
        """Waits until the repartition topic begins behind all that was in it at the beginning."""
        topic = f"{self.application}-words-repartition"
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "unused"})

        def offsets() -> list[tuple[int, int]]:
            return [
                consumer.get_watermark_offsets(TopicPartition(topic, index), CLIENT_TIMEOUT_S)
                for index in range(PARTITIONS)
            ]

        before = offsets()
        assert all(end > 0 for _, end in before)

        def purged() -> bool:
            self.tick()
            return all(
                now[_LOG_START] >= was[_END] for now, was in zip(offsets(), before, strict=True)
            )

        try:
            wait_until(purged, timeout_s=FRAMEWORK_TIMEOUT_S, what=f"purge of {topic}", poll_s=0.5)
        finally:
            consumer.close()


def totals(records: list[Record]) -> Counter[str]:
    """The last count of each word."""
    return Counter({word: counts[-1] for word, counts in histories(records).items()})


def histories(records: list[Record]) -> dict[str, list[int]]:
    """All counts of each word, in order."""
    found: dict[str, list[int]] = {}
    for record in records:
        assert record.key is not None
        assert record.value is not None
        found.setdefault(record.key.decode(), []).append(int(record.value))
    return found


def _check(error: object, _message: object) -> None:
    assert error is None, error
