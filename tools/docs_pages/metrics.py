"""docs/metrics.md, from the registries of running services: the embedded broker and a balancer."""

import asyncio
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from highwater.balancer.config import BalancerConfig
from highwater.balancer.service import BalancerService
from highwater.embed.broker import EmbeddedBroker
from highwater.embed.embedded import broker_settings
from highwater.embed.options import UpOptions
from highwater.runtime.logging import silent_logger

TITLES = {
    "highwater_gateway": "Gateway",
    "highwater_partition": "Partition node",
    "highwater_controller": "Controller",
    "highwater_quota": "Quota service",
    "highwater_balancer": "Balancer",
    "highwater_<process>": "Event loops",
    "process": "Process",
    "python": "Python",
}
"""Prefix of the names -> heading, in the order of the page."""

_HEAD = """\
# Metrics

Made by `make docs` from the services' registries; not to be edited.

`highwater up` serves them on free ports of 127.0.0.1, which it tells when it starts and leaves in
`metrics.json` of its data directory, by process; `--metrics-port` chooses, 0 is off. A service that
is started by itself serves them where its settings `metrics.host` and `metrics.port` say.

Nothing is counted by client, and nothing by topic but what says so: that is told for the first
1 000 partitions or groups' partitions of a node, and how many were left out. Errors have Kafka's
names; no error is not counted. Of records only offsets tell: batches are not opened for counting.

Quantiles of latencies, here of the last minute:

    histogram_quantile(0.99, sum by (api, le) (rate(highwater_gateway_request_latency_seconds_bucket[1m])))
"""


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """One metric as a scraper sees it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def page() -> str:
    """The whole text."""
    rows = asyncio.run(_rows())
    lines = [_HEAD]
    for prefix, title in TITLES.items():
        lines += [f"## {title}", "", "| metric | type | labels | |", "|---|---|---|---|"]
        for row in sorted(row for row in rows if row.name.startswith(f"{prefix}_")):
            labels = ", ".join(row.labels)
            lines.append(f"| `{row.name}` | {row.kind} | {labels} | {row.meaning} |")
        lines.append("")
    untold = [row.name for row in rows if not row.name.startswith(tuple(TITLES))]
    assert not untold, f"no heading for {untold}"
    return "\n".join(lines)


async def _rows() -> set[Row]:
    registry = CollectorRegistry()
    balancer = BalancerService(BalancerConfig(), registry=registry, log=silent_logger())
    balancer.register_metrics()
    rows = set(_rows_of(registry))
    with tempfile.TemporaryDirectory() as directory:
        settings = broker_settings(UpOptions(data_dir=Path(directory), port=0))
        broker = EmbeddedBroker(settings, silent_logger())
        try:
            await broker.start()
            rows |= set(_rows_of(broker.registry))
        finally:
            await broker.stop()
    return rows


def _rows_of(registry: CollectorRegistry) -> Iterator[Row]:
    for collector in registry._collector_to_names:  # noqa: SLF001 - there is no other list of them.
        labels: tuple[str, ...] = ()
        if isinstance(collector, MetricWrapperBase):
            labels = tuple(collector._labelnames)  # noqa: SLF001 - nor of labels.
        metrics: Iterable[Metric] = collector.collect()
        for metric in metrics:
            name = metric.name.replace("highwater_embedded_", "highwater_<process>_")
            yield Row(
                name + ("_total" if metric.type == "counter" else ""),
                metric.type,
                labels or tuple(getattr(metric, "_labelnames", ())),
                " ".join(metric.documentation.split()).rstrip("."),
            )
