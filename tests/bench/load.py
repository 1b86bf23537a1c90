"""Builds the load generator and runs it once against one broker."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.compression import Compression
from tests.bench import c_program
from tests.bench.workloads import (
    ABORT_EVERY,
    FETCH_VERSION,
    LZ4_RECORD_BYTES,
    PRODUCE_VERSION,
    Batch,
    Metric,
    Transactions,
    Workload,
)

SOURCE = Path(__file__).with_name("loadgen")
EXECUTABLE = SOURCE / "build" / "loadgen"
# The generator itself gives up after 15 s without an answer at the end of a run, and after 30 s
# without one during it; its setup waits up to 20 s for a topic.
RUN_SLACK_S = 90.0
ERRORS_IN_RESPONSES = 3
RETRY_PAUSE_S = 0.5
# Producers whose transactions are open at the same time in what is read later.
PREPARING_PRODUCERS = 10
PREPARING_S_MAX = 600.0


class LoadFailed(RuntimeError):
    """The generator failed before its end, or responses had errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """One measured window. Latencies in microseconds, MB are 10^6 bytes of record batches.

    `brokers` led partitions of the topic: connections were assigned to them in turn. Of transactions
    the latency is that of EndTxn, `transaction_p50_us` that from their first Produce to its answer, and
    `retries` is how many requests were sent again for CONCURRENT_TRANSACTIONS.
    """

    requests: int
    requests_per_s: float
    mb_per_s: float
    latency_us: Mapping[str, float]
    client_cpu_s: float
    retries: int
    transaction_p50_us: float
    brokers: int
    per_second: tuple[int, ...]

    def value(self, metric: Metric) -> float:
        """The number that a row with this metric compares."""
        if metric is Metric.MEGABYTES:
            return self.mb_per_s
        if metric in {Metric.REQUESTS, Metric.TRANSACTIONS}:
            return self.requests_per_s
        return self.latency_us["p50"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a run: a bootstrap address and a topic; see the generator's --no-metadata,
    --sasl-plain for `login`, and --tls-ca for `ca_file`.
    """

    bootstrap: str
    topic: str
    no_metadata: bool = False
    login: str = ""
    ca_file: Path | None = None

    @property
    def arguments(self) -> list[str]:
        """The generator's options for this target, without the partition count."""
        first = self.bootstrap.split(",")[0]
        login = ["--sasl-plain", self.login] if self.login else []
        tls = ["--tls-ca", str(self.ca_file)] if self.ca_file else []
        return ["--bootstrap", first, "--topic", self.topic, *login, *tls]


def build() -> Path:
    """Compiles the generator if its sources have changed. Raises BuildFailed."""
    c_program.build(SOURCE)
    return EXECUTABLE


def run(workload: Workload, target: Target, *, seconds: float, warmup_seconds: float) -> LoadResult:
    """Runs `workload` for its window. Raises LoadFailed on any error in a response."""
    arguments = [
        "--connections", str(workload.connections),
        "--in-flight", str(workload.in_flight),
        "--seconds", str(seconds),
        "--warmup-seconds", str(warmup_seconds),
    ]  # fmt: skip
    if workload.rate is not None:
        arguments += ["--rate", str(workload.rate)]
    if workload.fetch:
        arguments += _fetch_options(workload)
    elif workload.transactions is not None:
        arguments += _transact_options(workload.transactions)
    else:
        arguments += _produce_options(workload)
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as scratch:
        if workload.batch is Batch.LZ4:
            file = Path(scratch) / "batch"
            file.write_bytes(lz4_batch(workload.request_bytes))
            arguments += ["--batch-file", str(file)]
        return _run(target, workload.partitions, arguments, seconds + warmup_seconds)


def send(
    target: Target,
    *,
    partitions: int,
    batch_bytes: int,
    requests: int,
    records_per_batch: int = 1,
    connections: int = 1,
    acks: int = 1,
    auto_create: bool = False,
    batch_file: Path | None = None,
    wait_s: float = 0.0,
    retry_pause_s: float = RETRY_PAUSE_S,
) -> LoadResult:
    """Sends exactly `requests` batches, evenly over the partitions, as fast as possible: those of
    `batch_file`, or of `batch_bytes` with so many records.

    A connection reaches the partitions of one broker, so there must be as many as brokers. If a run
    fails, it is repeated for up to `wait_s`, with new batches: a new partition answers
    NOT_LEADER_OR_FOLLOWER until its leader knows of it. Raises LoadFailed.
    """
    longest_s = 600.0
    arguments = [
        "--mode", "produce", "--version", str(PRODUCE_VERSION),
        "--connections", str(connections),
        "--in-flight", "8", "--requests", str(requests), "--batch-bytes", str(batch_bytes),
        "--seconds", str(longest_s), "--warmup-seconds", "0",
        "--records-per-batch", str(records_per_batch), "--acks", str(acks),
    ]  # fmt: skip
    if auto_create:
        arguments.append("--auto-create")
    if batch_file is not None:
        arguments += ["--batch-file", str(batch_file)]
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return _run(target, partitions, arguments, longest_s)
        except LoadFailed:
            if time.monotonic() >= deadline:
                raise
            time.sleep(retry_pause_s)


def send_at_rate(
    target: Target,
    *,
    partitions: int,
    requests_per_s: float,
    seconds: float,
    batch_bytes: int,
    records_per_batch: int,
    connections: int,
) -> LoadResult:
    """Sends batches at a fixed rate, as an open loop. Raises LoadFailed."""
    arguments = [
        "--mode", "produce", "--version", str(PRODUCE_VERSION), "--acks", "1",
        "--connections", str(connections), "--in-flight", "8", "--rate", str(requests_per_s),
        "--seconds", str(seconds), "--warmup-seconds", "0",
        "--batch-bytes", str(batch_bytes), "--records-per-batch", str(records_per_batch),
    ]  # fmt: skip
    return _run(target, partitions, arguments, seconds)


def send_transactions(
    target: Target, transactions: Transactions, *, partitions: int, total_bytes: int, in_flight: int
) -> LoadResult:
    """Sends transactions with values of `total_bytes` together, as fast as possible, some of which are
    aborted. Raises LoadFailed.
    """
    count = total_bytes // (transactions.records * transactions.record_bytes)
    arguments = [
        *_transact_options(transactions),
        "--abort-every", str(ABORT_EVERY),
        "--connections", str(PREPARING_PRODUCERS), "--in-flight", str(in_flight),
        "--requests", str(max(1, count)),
        "--seconds", str(PREPARING_S_MAX), "--warmup-seconds", "0",
    ]  # fmt: skip
    return _run(target, partitions, arguments, PREPARING_S_MAX)


def lz4_batch(size: int) -> bytes:
    """A batch of 1 KiB records, compressed to about `size` bytes; text-like, so about 3 to 1."""
    builder = RecordBatchBuilder(compression=Compression.LZ4)
    count, finished = 0, b""
    while len(finished) < size:
        _append_text(builder, range(count, count + 4))
        count += 4
        finished = builder.build()
    return finished


def lz4_records(count: int) -> bytes:
    """A batch of so many 1 KiB records, compressed."""
    builder = RecordBatchBuilder(compression=Compression.LZ4)
    _append_text(builder, range(count))
    return builder.build()


def _append_text(builder: RecordBatchBuilder, numbers: Iterable[int]) -> None:
    now_ms = int(time.time() * 1000)
    words = [f"{n:x}".encode() for n in range(40_000, 44_000)]
    for number in numbers:
        value = b" ".join(words[(number * 97 + i * i) % len(words)] for i in range(220))
        builder.append(key=None, value=value[:LZ4_RECORD_BYTES], timestamp_ms=now_ms)


def _produce_options(workload: Workload) -> list[str]:
    options = [
        "--mode", "produce", "--version", str(PRODUCE_VERSION), "--acks", str(workload.acks),
        "--batch-bytes", str(workload.request_bytes),
    ]  # fmt: skip
    return [*options, "--idempotent"] if workload.idempotent else options


def _transact_options(transactions: Transactions) -> list[str]:
    return [
        "--mode", "transact", "--transaction-records", str(transactions.records),
        "--record-bytes", str(transactions.record_bytes),
    ]  # fmt: skip


def _fetch_options(workload: Workload) -> list[str]:
    options = [
        "--mode", "fetch", "--version", str(FETCH_VERSION), "--discard",
        "--max-bytes", str(workload.request_bytes),
    ]  # fmt: skip
    return options if workload.transactions is None else [*options, "--read-committed"]


def _run(target: Target, partitions: int, arguments: list[str], expected_s: float) -> LoadResult:
    if target.no_metadata:
        arguments = [*arguments, "--no-metadata", "--partitions", str(partitions)]
    command = [str(EXECUTABLE), *target.arguments, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=expected_s + RUN_SLACK_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"no end after {error.timeout:.0f} s: {' '.join(command)}") from error
    if done.returncode != 0:
        what = (
            f" in responses: {done.stdout[:400]}" if done.returncode == ERRORS_IN_RESPONSES else ""
        )
        raise LoadFailed(f"{done.stderr.strip()}{what}\n{' '.join(command)}")
    found = json.loads(done.stdout)
    return LoadResult(
        requests=found["requests"],
        requests_per_s=found["requests_per_s"],
        mb_per_s=found["mb_per_s"],
        latency_us=found["latency_us"],
        client_cpu_s=sum(found["client_cpu_s"].values()),
        retries=found["retries"],
        transaction_p50_us=found["transaction_us"]["p50"],
        brokers=found["brokers"],
        per_second=tuple(found["per_second"]),
    )
