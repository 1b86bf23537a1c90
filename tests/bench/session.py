"""Runs rows: warms every peer until it is steady, then measures them in turn, pair after pair."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from tests.bench import load
from tests.bench.peer import Peer
from tests.bench.workloads import JAVA_IN_FLIGHT, KIB, MANY_PARTITIONS, Metric, Security, Workload

PREPARED_BATCH_BYTES = 16 * KIB
# Kafka indexes every 4 KiB, and its first store into a preallocated index file is slow: after three
# batches per partition, that does not affect the measurement.
PRIME_BATCHES_PER_PARTITION = 3
PRIME_TIMEOUT_S = 180.0
STEADY_WITHIN = 0.10
STEADY_WINDOWS_MAX = 6
SETTLE_S = 1.0
FREE_DISK_BYTES_MIN = 15 * 10**9

# The same for every peer. Segments roll, and are soon deleted in small portions while a row runs. A
# fast broker must not fill the disk, nor write more dirty pages than the kernel takes without
# throttling. A page that is free for a second or two goes back to a virtual machine's host, and the
# first write to it then costs ten times the copy (docs/benchmarks.md, "Method").
SEGMENT_BYTES = 64 * KIB * KIB
# A thousand partitions together must stay below the memory and the disk of a small machine.
SEGMENT_BYTES_OF_MANY = 4 * KIB * KIB
# Three replicas of all data share one page cache with the other peer's three.
SEGMENT_BYTES_OF_REPLICATED = 32 * KIB * KIB
MIN_INSYNC_REPLICAS = 2
# Topics that are read must keep their data.
KEPT_TOPIC_CONFIGS = {"file.delete.delay.ms": "100"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The lengths of windows in seconds, and the number of measured pairs.

    `idle_seconds` is the window in which a broker that does nothing is measured.
    """

    pairs: int = 5
    seconds: float = 4.0
    warmup_seconds: float = 1.0
    first_warmup_seconds: float = 15.0
    idle_seconds: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured window of one peer; `brokers` led partitions.

    `server_cpu_us`, `server_faults`, page faults without I/O, and `retries` are per request. Of
    transactions `p50_us` is of EndTxn, `transaction_p50_us` of all of one.
    """

    value: float
    p50_us: float
    p99_us: float
    requests_per_s: float
    mb_per_s: float
    server_cpu_us: float | None
    server_faults: float | None
    brokers: int
    retries: float = 0.0
    transaction_p50_us: float = 0.0


@dataclass(slots=True)
class Row:
    """The result of a workload: samples by peer, in order, and why a peer has none."""

    workload: Workload
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, peer: str) -> float | None:
        """The median over this peer's windows."""
        values = [sample.value for sample in self.samples.get(peer, [])]
        return median(values) if values else None

    def ratio(self, peer: str, baseline: str) -> float | None:
        """The median ratio over all pairs, so that a slow phase of the machine cancels out."""
        return self._ratio(peer, baseline, lambda sample: sample.value)

    def p50_ratio(self, peer: str, baseline: str) -> float | None:
        """The same of the median latencies."""
        return self._ratio(peer, baseline, lambda sample: sample.p50_us)

    def _ratio(self, peer: str, baseline: str, of: Callable[[Sample], float]) -> float | None:
        pairs = zip(self.samples.get(peer, []), self.samples.get(baseline, []), strict=False)
        ratios = [of(ours) / of(theirs) for ours, theirs in pairs if of(theirs) > 0]
        return median(ratios) if ratios else None


class Session:
    """Measures rows on running peers. One thread, no concurrency."""

    def __init__(
        self, peers: Sequence[Peer], settings: Settings, tell: Callable[[str], None]
    ) -> None:
        self._peers = peers
        self._settings = settings
        self._tell = tell
        self._kept_topics: set[tuple[str, str]] = set()

    def measure(self, workload: Workload) -> Row:
        """Runs one row. A peer that fails is reported in the row and skipped in its rest, one without
        transactions, or without TLS and logins, does not run a row of them.
        """
        row = Row(workload)
        peers = [peer for peer in self._peers if _runs(peer, workload)]
        if not peers:
            return row
        _check_disk()
        for peer in peers:
            self._guard(row, peer, partial(self._prepare, workload, peer))
        for pair in range(self._settings.pairs):
            # The order changes from pair to pair.
            order = peers if pair % 2 == 0 else peers[::-1]
            for peer in order:
                self._guard(row, peer, partial(self._sample, row, peer))
        for peer in peers:
            if not workload.shares_topic:
                self._guard(row, peer, partial(peer.delete_topic, workload.topic))
        time.sleep(SETTLE_S)
        return row

    def warm_up(self, workloads: Sequence[Workload]) -> None:
        """Runs each load for `first_warmup_seconds` on every peer: warms compilers and page caches.

        The rows' own warm-up looks for two equal windows, which a Java compiler that has hardly
        started would also give. A peer that fails here will fail, and be reported, in its rows.
        """
        for peer in self._peers:
            for workload in [each for each in workloads if _runs(peer, each)]:
                row = Row(workload)
                target = self._target(workload, peer)
                self._guard(row, peer, partial(self._create, workload, peer))
                self._guard(
                    row,
                    peer,
                    partial(
                        load.run,
                        workload,
                        target,
                        seconds=self._settings.first_warmup_seconds,
                        warmup_seconds=0,
                    ),
                )
                if not workload.shares_topic:
                    self._guard(row, peer, partial(peer.delete_topic, workload.topic))

    def release(self) -> None:
        """Deletes the topics that rows shared."""
        for peer in self._peers:
            for name, topic in sorted(self._kept_topics):
                if name == peer.name:
                    peer.delete_topic(topic)
        self._kept_topics.clear()

    def _guard(self, row: Row, peer: Peer, action: Callable[[], object]) -> None:
        if peer.name in row.failures:
            return
        try:
            action()
        except Exception as error:  # noqa: BLE001  The other rows continue after any broker's error.
            row.failures[peer.name] = f"{type(error).__name__}: {error}"
            self._tell(f"  {peer.name}: failed: {error}")

    def _target(self, workload: Workload, peer: Peer) -> load.Target:
        return peer.target(workload.topic, workload.security)

    def _prepare(self, workload: Workload, peer: Peer) -> None:
        target = self._target(workload, peer)
        self._create(workload, peer)
        before: float | None = None
        for _ in range(STEADY_WINDOWS_MAX):
            result = self._run(workload, target)
            value = result.requests_per_s
            self._tell(f"  {peer.name}: warming, {_show(result, workload)}")
            if before is not None and abs(value - before) <= STEADY_WITHIN * max(value, before):
                return
            before = value

    def _create(self, workload: Workload, peer: Peer) -> None:
        if (peer.name, workload.topic) in self._kept_topics:
            return
        configs = topic_configs(workload)
        peer.create_topic(
            workload.topic,
            workload.partitions,
            configs,
            replication=workload.replication,
            deep=workload.deep_validation,
        )
        if workload.shares_topic:
            self._kept_topics.add((peer.name, workload.topic))
        self._prime(workload, self._target(workload, peer))

    def _prime(self, workload: Workload, target: load.Target) -> None:
        """Waits until every partition takes produce requests; writes the data to be read later."""
        load.send(
            target,
            partitions=workload.partitions,
            batch_bytes=PREPARED_BATCH_BYTES,
            requests=workload.partitions * PRIME_BATCHES_PER_PARTITION,
            connections=workload.nodes,
            acks=workload.acks,
            wait_s=PRIME_TIMEOUT_S,
        )
        each = workload.preload_bytes_per_partition // PREPARED_BATCH_BYTES
        if workload.fetch and workload.transactions is not None:
            load.send_transactions(
                target,
                workload.transactions,
                partitions=workload.partitions,
                total_bytes=workload.partitions * workload.preload_bytes_per_partition,
                in_flight=JAVA_IN_FLIGHT,
            )
        elif each > 0:
            load.send(
                target,
                partitions=workload.partitions,
                batch_bytes=PREPARED_BATCH_BYTES,
                requests=workload.partitions * each,
                connections=workload.nodes,
                acks=workload.acks,
            )

    def _sample(self, row: Row, peer: Peer) -> None:
        workload = row.workload
        cpu_before, faults_before = peer.cpu_seconds(), peer.minor_faults()
        result = self._run(workload, self._target(workload, peer))
        cpu_after, faults_after = peer.cpu_seconds(), peer.minor_faults()
        # Both include the window's warm-up, which costs the same per request.
        total = result.requests_per_s * (self._settings.seconds + self._settings.warmup_seconds)
        cpu_s = _each(cpu_before, cpu_after, total)
        sample = Sample(
            value=result.value(workload.metric),
            p50_us=result.latency_us["p50"],
            p99_us=result.latency_us["p99"],
            requests_per_s=result.requests_per_s,
            mb_per_s=result.mb_per_s,
            server_cpu_us=None if cpu_s is None else cpu_s * 1e6,
            server_faults=_each(faults_before, faults_after, total),
            brokers=result.brokers,
            retries=result.retries / max(1, result.requests),
            transaction_p50_us=result.transaction_p50_us,
        )
        row.samples.setdefault(peer.name, []).append(sample)
        self._tell(f"  {peer.name}: {_show(result, workload)}")

    def _run(self, workload: Workload, target: load.Target) -> load.LoadResult:
        return load.run(
            workload,
            target,
            seconds=self._settings.seconds,
            warmup_seconds=self._settings.warmup_seconds,
        )


def _runs(peer: Peer, workload: Workload) -> bool:
    secured = workload.security is not Security.PLAINTEXT
    return (peer.has_transactions or workload.transactions is None) and (
        peer.can_be_secured or not secured
    )


def _each(before: float | None, after: float | None, requests: float) -> float | None:
    """What each request added; None if that is not known."""
    if before is None or after is None or requests <= 0:
        return None
    return (after - before) / requests


def topic_configs(workload: Workload) -> dict[str, str]:
    """Configs of a row's topic: data to read stays, data only written is soon deleted."""
    if workload.preload_bytes_per_partition > 0:
        return KEPT_TOPIC_CONFIGS
    replicated = workload.replication > 1
    segment_bytes = SEGMENT_BYTES_OF_REPLICATED if replicated else SEGMENT_BYTES
    if workload.partitions >= MANY_PARTITIONS:
        segment_bytes = SEGMENT_BYTES_OF_MANY
    configs = {
        "segment.bytes": str(segment_bytes),
        "retention.bytes": str(segment_bytes),
        "file.delete.delay.ms": "100",
    }
    if replicated:
        configs["min.insync.replicas"] = str(MIN_INSYNC_REPLICAS)
    return configs


def _show(result: load.LoadResult, workload: Workload) -> str:
    if workload.metric is Metric.MEDIAN_LATENCY:
        return (
            f"p50 {result.latency_us['p50']:.0f} us, p99 {result.latency_us['p99']:.0f} us"
            f"{_where(result, workload)}"
        )
    return (
        f"{result.value(workload.metric):,.0f} {workload.metric.value}, "
        f"p99 {result.latency_us['p99']:,.0f} us{_where(result, workload)}"
    )


def _where(result: load.LoadResult, workload: Workload) -> str:
    """Names the brokers if not all lead partitions, because that is another load."""
    if result.brokers >= workload.nodes:
        return ""
    return f", all leaders on {result.brokers} of {workload.nodes} nodes"


def _check_disk() -> None:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < FREE_DISK_BYTES_MIN:
        raise RuntimeError(
            f"{free / 1e9:.1f} GB free in {tempfile.gettempdir()}, a row may need "
            f"{FREE_DISK_BYTES_MIN / 1e9:.0f} GB"
        )
