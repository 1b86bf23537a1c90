"""Rate and memory under the same load, on topics with more and more partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from tests.bench import load
from tests.bench.peer import Peer
from tests.bench.session import PREPARED_BATCH_BYTES, PRIME_TIMEOUT_S, topic_configs
from tests.bench.workloads import KIB, REPLICATION_FACTOR, Metric, Workload

PARTITION_COUNTS = (10, 1000, 5000)
# Several connections share the partitions unevenly: one batch each would not reach all of them.
FIRST_BATCHES_PER_PARTITION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthResult:
    """Medians of the windows; then the memory of all processes together."""

    peer: str
    version: str
    partitions: int
    replication: int
    mb_per_s: float
    requests_per_s: float
    p99_us: float
    idle_bytes: int | None
    loaded_bytes: int | None


def workload_of(partitions: int, replication: int) -> Workload:
    """16 KiB batches, 10 connections with 8 requests each: as in the other tables."""
    return Workload(
        name=f"growth/p{partitions}/rf{replication}",
        request_bytes=16 * KIB,
        connections=10,
        in_flight=8,
        partitions=partitions,
        metric=Metric.MEGABYTES,
        replication=replication,
    )


def measure(
    peer: Peer,
    partitions: int,
    *,
    windows: int,
    seconds: float,
    warmup_seconds: float,
    tell: Callable[[str], None],
) -> GrowthResult:
    """Starts the peer again, so that only these partitions use its memory, and ends it."""
    workload = workload_of(partitions, REPLICATION_FACTOR if peer.nodes > 1 else 1)
    peer.start()
    try:
        peer.create_topic(
            workload.topic,
            partitions,
            topic_configs(workload),
            replication=workload.replication,
        )
        target = load.Target(bootstrap=peer.bootstrap, topic=workload.topic)
        load.send(
            target,
            partitions=partitions,
            batch_bytes=PREPARED_BATCH_BYTES,
            requests=partitions * FIRST_BATCHES_PER_PARTITION,
            connections=workload.nodes,
            acks=workload.acks,
            wait_s=PRIME_TIMEOUT_S,
        )
        idle = peer.resident_bytes()
        load.run(workload, target, seconds=warmup_seconds, warmup_seconds=0)
        found = [
            load.run(workload, target, seconds=seconds, warmup_seconds=1.0) for _ in range(windows)
        ]
        result = GrowthResult(
            peer=peer.name,
            version=peer.version(),
            partitions=partitions,
            replication=workload.replication,
            mb_per_s=median(each.mb_per_s for each in found),
            requests_per_s=median(each.requests_per_s for each in found),
            p99_us=median(each.latency_us["p99"] for each in found),
            idle_bytes=idle,
            loaded_bytes=peer.resident_bytes(),
        )
    finally:
        peer.stop()
    tell(
        f"  {peer.name}, {partitions} partitions: {result.mb_per_s:,.0f} MB/s, "
        f"p99 {result.p99_us:,.0f} us, {(result.loaded_bytes or 0) / 1e6:,.0f} MB resident"
    )
    return result
