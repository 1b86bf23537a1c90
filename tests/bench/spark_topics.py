"""The topics that Spark reads and loads: the same records in every broker, written by the load generator."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from pathlib import Path

from tests.bench import load
from tests.bench.peer import Peer
from tests.bench.workloads import LZ4_RECORD_BYTES
from tests.conformance.topics import make_topic

PARTITIONS = 12
RECORDS_PER_BATCH = 500
BATCH_BYTES = 512 * 1024  # Records of about 1 KiB, in batches as from a busy producer.
TOPIC_CONFIGS = {
    "retention.bytes": "-1",
    "retention.ms": "-1",
    # A deleted topic makes room before the next one is written.
    "file.delete.delay.ms": "100",
}


class Data(StrEnum):
    """How the records are compressed."""

    PLAIN = "plain"
    LZ4 = "lz4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A topic, which has as many records with every broker that it was filled at."""

    topic: str
    data: Data
    batches: int

    @property
    def records(self) -> int:
        """How many there are."""
        return self.batches * RECORDS_PER_BATCH


def plan(topic: str, data: Data, gigabytes: float) -> Filled:
    """A topic with `gigabytes` (10^9 bytes) of values, at least one batch a partition."""
    batch = RECORDS_PER_BATCH * LZ4_RECORD_BYTES
    return Filled(topic=topic, data=data, batches=max(PARTITIONS, ceil(gigabytes * 1e9 / batch)))


def fill(peer: Peer, filled: Filled) -> None:
    """Makes the topic and writes its records. Raises LoadFailed."""
    make_topic(peer.bootstrap, filled.topic, partitions=PARTITIONS, configs=TOPIC_CONFIGS)
    target = load.Target(bootstrap=peer.bootstrap, topic=filled.topic)
    with tempfile.TemporaryDirectory(prefix="spark-topics-") as scratch:
        file = None
        if filled.data is Data.LZ4:
            file = Path(scratch) / "batch"
            file.write_bytes(load.lz4_records(RECORDS_PER_BATCH))
        load.send(
            target,
            partitions=PARTITIONS,
            batch_bytes=BATCH_BYTES,
            requests=filled.batches,
            records_per_batch=RECORDS_PER_BATCH,
            batch_file=file,
        )
