"""The benchmark's rows: batches, connections and partitions of each."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

KIB = 1024
MIB = 1024 * KIB

PRODUCE_VERSION = 9
FETCH_VERSION = 12
LZ4_RECORD_BYTES = 1 * KIB
PACED_REQUESTS_PER_S = 1000
# Three nodes share the machine: half of the rate for one node.
PACED_REPLICATED_REQUESTS_PER_S = 500
REPLICATION_FACTOR = 3
NODES_OF_REPLICATED = 3


class Metric(enum.Enum):
    """The number that judges a row; the value is its unit."""

    MEGABYTES = "MB/s"
    REQUESTS = "req/s"
    TRANSACTIONS = "txn/s"
    MEDIAN_LATENCY = "us p50"

    @property
    def lower_is_better(self) -> bool:
        """True for latencies, whose targets are upper limits."""
        return self is Metric.MEDIAN_LATENCY


class Security(enum.Enum):
    """What stands between client and broker; the value is the last part of rows' names."""

    PLAINTEXT = "plain"
    TLS = "tls"
    LOGIN = "sasl"
    """SASL PLAIN without TLS; a connection logs in before its first window."""


class Batch(enum.Enum):
    """The content of a produced record batch."""

    ONE_RECORD = "one record"
    LZ4 = "lz4, 1 KiB records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """What each transaction of a producer writes, in batches as Java's producer fills them."""

    records: int
    record_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One row. `targets` maps a peer's name to its target ratio to Kafka.

    `plain_shares` does so to the part of the same load's ratio without sequence numbers, as measured
    in the same run, that this ratio must reach. `p50_targets` has the most that the median latency
    may be, as a ratio to Kafka's.

    With `transactions` a producer runs them, or, in a fetch row, has run them before: the row then
    reads what is committed. `request_bytes` has no meaning for the former, and a request is a
    transaction.
    """

    name: str
    fetch: bool = False
    request_bytes: int
    connections: int
    in_flight: int
    partitions: int
    metric: Metric
    idempotent: bool = False
    batch: Batch = Batch.ONE_RECORD
    rate: int | None = None
    deep_validation: bool = False
    replication: int = 1
    preload_bytes_per_partition: int = 0
    transactions: Transactions | None = None
    security: Security = Security.PLAINTEXT
    targets: Mapping[str, float] = field(default_factory=dict)
    p50_targets: Mapping[str, float] = field(default_factory=dict)
    plain_shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def plain_name(self) -> str:
        """The name of the same load without sequence numbers."""
        return self.name.rpartition("/")[0] + "/plain"

    @property
    def nodes(self) -> int:
        """How many nodes a peer must have to run this row; others do not run it."""
        return NODES_OF_REPLICATED if self.replication > 1 else 1

    @property
    def acks(self) -> int:
        """-1 (all in-sync replicas) with several replicas or transactions, else 1."""
        return -1 if self.replication > 1 or self.transactions is not None else 1

    @property
    def topic(self) -> str:
        """The topic's name. Rows share topics if possible: 1000 partitions take long to create."""
        if self.fetch:
            kind = "fetch" if self.transactions is None else "committed"
            return f"bench-{kind}-p{self.partitions}"
        if self.partitions >= MANY_PARTITIONS:
            return f"bench-produce-p{self.partitions}"
        return "bench-" + self.name.replace("/", "-")

    @property
    def shares_topic(self) -> bool:
        """True if the topic is kept for later rows, not deleted after this one."""
        return self.fetch or self.partitions >= MANY_PARTITIONS


MANY_PARTITIONS = 1000


def _targets(embedded: float, combined: float, services: float) -> dict[str, float]:
    return {"embedded": embedded, "combined": combined, "services": services}


def _replicated_targets(combined: float, services: float) -> dict[str, float]:
    return {"combined3": combined, "services3": services}


_PRODUCE = {
    "produce-16k-10x8": Workload(
        name="", request_bytes=16 * KIB, connections=10, in_flight=8, partitions=12,
        metric=Metric.MEGABYTES, targets=_targets(1.4, 1.35, 1.05),
    ),
    "produce-1m-4x4": Workload(
        name="", request_bytes=MIB, connections=4, in_flight=4, partitions=12,
        metric=Metric.MEGABYTES, targets=_targets(1.25, 1.2, 0.9),
    ),
    "produce-200b-50x8": Workload(
        name="", request_bytes=200, connections=50, in_flight=8, partitions=12,
        metric=Metric.REQUESTS, targets=_targets(2.1, 1.9, 1.6),
    ),
    "produce-200b-50x1": Workload(
        name="", request_bytes=200, connections=50, in_flight=1, partitions=12,
        metric=Metric.REQUESTS, targets=_targets(1.15, 1.1, 0.85),
    ),
    "latency-200b-1000rps": Workload(
        name="", request_bytes=200, connections=10, in_flight=8, partitions=12,
        metric=Metric.MEDIAN_LATENCY, rate=PACED_REQUESTS_PER_S,
        targets=_targets(0.85, 0.9, 1.9),
    ),
}  # fmt: skip

_FETCH = {
    "fetch-1m-4x1": Workload(
        name="", fetch=True, request_bytes=MIB, connections=4, in_flight=1, partitions=12,
        metric=Metric.MEGABYTES, targets=_targets(0.85, 0.8, 0.55),
    ),
    "fetch-16k-10x1": Workload(
        name="", fetch=True, request_bytes=16 * KIB, connections=10, in_flight=1, partitions=12,
        metric=Metric.MEGABYTES, targets=_targets(1.3, 1.2, 0.6),
    ),
}  # fmt: skip

_REPLICATED = {
    "produce-200b-50x8": Workload(
        name="", request_bytes=200, connections=50, in_flight=8, partitions=12,
        metric=Metric.REQUESTS, targets=_replicated_targets(6.0, 6.0),
    ),
    "produce-16k-10x8": Workload(
        name="", request_bytes=16 * KIB, connections=10, in_flight=8, partitions=12,
        metric=Metric.MEGABYTES, targets=_replicated_targets(1.8, 1.5),
    ),
    "produce-1m-4x4": Workload(
        name="", request_bytes=MIB, connections=4, in_flight=4, partitions=12,
        metric=Metric.MEGABYTES, targets=_replicated_targets(1.3, 1.15),
    ),
    "latency-200b-500rps": Workload(
        name="", request_bytes=200, connections=10, in_flight=8, partitions=12,
        metric=Metric.MEDIAN_LATENCY, rate=PACED_REPLICATED_REQUESTS_PER_S,
        targets=_replicated_targets(1.3, 1.8),
    ),
}  # fmt: skip

# Without replicas and with them: the last table that was published before combined nodes, which has
# none of these. In services mode sequence numbers may cost a tenth of the ratio.
_IDEMPOTENT_TARGETS: Mapping[str, Mapping[str, float]] = {
    "produce-16k-10x8": {"embedded": 1.49},
    "produce-1m-4x4": {"embedded": 1.22},
    "produce-200b-50x8": {"embedded": 1.78},
    "produce-200b-50x1": {"embedded": 1.08},
}
_PLAIN_SHARES = {"services": 0.9, "services3": 0.9}
_REPLICATED_IDEMPOTENT_TARGETS: Mapping[str, Mapping[str, float]] = {
    "produce-200b-50x8": {"services3": 2.35},
    "produce-16k-10x8": {"services3": 1.42},
    "produce-1m-4x4": {"services3": 1.11},
}

# Transactions of 100 records, small and large; each kind runs with one producer and with 50.
_SMALL = Transactions(records=100, record_bytes=200)
_LARGE = Transactions(records=100, record_bytes=16 * KIB)
# Java's max.in.flight.requests.per.connection.
JAVA_IN_FLIGHT = 5
_AS_KAFKA: Mapping[str, float] = {"embedded": 1.0, "combined": 1.0}

# Every fourth transaction of what readers of committed records find was aborted.
ABORT_EVERY = 4
_TRANSACTIONAL = (
    *(
        Workload(
            name=f"txn-{size}-100x{producers}/p12/commit", transactions=transactions,
            request_bytes=0, connections=producers, in_flight=JAVA_IN_FLIGHT, partitions=12,
            metric=Metric.TRANSACTIONS, targets=_AS_KAFKA, p50_targets=_AS_KAFKA,
        )
        for size, transactions in (("200b", _SMALL), ("16k", _LARGE))
        for producers in (1, 50)
    ),
    *(
        Workload(
            name=f"txn-fetch-{size}-{connections}x1/p12/committed", fetch=True, transactions=_LARGE,
            request_bytes=request_bytes, connections=connections, in_flight=1, partitions=12,
            preload_bytes_per_partition=64 * MIB, metric=Metric.MEGABYTES, targets=_AS_KAFKA,
        )
        for size, request_bytes, connections in (("64k", 64 * KIB, 10), ("1m", MIB, 4))
    ),
)  # fmt: skip

# With TLS, and with a login, embedded must not be slower than Kafka's TLS or login at 16 KiB.
_SECURED_TARGETS: Mapping[str, Mapping[str, float]] = {
    "produce-16k-10x8": {"embedded": 1.0},
    "fetch-16k-10x1": {"embedded": 1.0},
}
_SECURED = (
    ("produce-16k-10x8", Security.TLS),
    ("fetch-16k-10x1", Security.TLS),
    ("fetch-1m-4x1", Security.TLS),
    ("produce-16k-10x8", Security.LOGIN),
    ("fetch-16k-10x1", Security.LOGIN),
)

# Enough that a reader seldom starts over, but little enough to stay in the page cache.
_PRELOAD_BYTES = {1: 256 * MIB, 12: 64 * MIB, 1000: 512 * KIB}


def _variant(base: Workload, **changes: object) -> Workload:
    values = {name: getattr(base, name) for name in Workload.__slots__}
    return Workload(**{**values, **changes})


def _secured_rows() -> list[Workload]:
    rows = []
    for name, security in _SECURED:
        base = (_PRODUCE | _FETCH)[name]
        fixed: dict[str, object] = {"targets": _SECURED_TARGETS.get(name, {})}
        if base.fetch:
            fixed["preload_bytes_per_partition"] = _PRELOAD_BYTES[base.partitions]
        at = f"{name}/p{base.partitions}/{security.value}"
        rows.append(_variant(base, name=at, security=security, **fixed))
    return rows


def all_workloads() -> tuple[Workload, ...]:
    """Every row, named `<what>/p<partitions>/<variant>`; replicated ones `<what>/rf3/<variant>`.

    `<what>` ends with connections x requests in flight, or, of `txn-` rows that write, with records
    of a transaction x producers.
    """
    rows: list[Workload] = []
    for partitions in (12, 1, 1000):
        for name, base in (_PRODUCE | _FETCH).items():
            at = f"{name}/p{partitions}"
            fixed: dict[str, object] = {"partitions": partitions}
            if base.fetch:
                fixed["preload_bytes_per_partition"] = _PRELOAD_BYTES[partitions]
            if partitions != 12:
                fixed["targets"] = {}
            rows.append(_variant(base, name=f"{at}/plain", **fixed))
            if not base.fetch and base.rate is None:
                if partitions == 12:
                    fixed["targets"] = _IDEMPOTENT_TARGETS[name]
                    fixed["plain_shares"] = _PLAIN_SHARES
                rows.append(_variant(base, name=f"{at}/idempotent", idempotent=True, **fixed))
    lz4 = {"batch": Batch.LZ4, "targets": {}}
    base = _PRODUCE["produce-16k-10x8"]
    rows.append(_variant(base, name="produce-16k-10x8/p12/lz4", **lz4))
    rows.append(_variant(base, name="produce-16k-10x8/p12/lz4-deep", deep_validation=True, **lz4))
    rows += _secured_rows()
    for name, base in _REPLICATED.items():
        fixed = {"replication": REPLICATION_FACTOR}
        rows.append(_variant(base, name=f"{name}/rf3/plain", **fixed))
        if base.rate is None:
            fixed["targets"] = _REPLICATED_IDEMPOTENT_TARGETS[name]
            fixed["plain_shares"] = _PLAIN_SHARES
            rows.append(_variant(base, name=f"{name}/rf3/idempotent", idempotent=True, **fixed))
    return (*rows, *_TRANSACTIONAL)


def select(patterns: Iterable[str]) -> tuple[Workload, ...]:
    """Rows whose name matches a shell pattern. Raises ValueError if a pattern matches none."""
    rows = all_workloads()
    chosen: set[str] = set()
    for pattern in patterns:
        found = {row.name for row in rows if fnmatchcase(row.name, pattern)}
        if not found:
            raise ValueError(f"no row is named like {pattern!r}")
        chosen |= found
    return tuple(row for row in rows if row.name in chosen)
