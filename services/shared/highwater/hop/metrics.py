"""The hop's connections as Prometheus sees them: those that a process opened, or accepted."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.rpc.statistics import Statistics

_GAUGES: Final[tuple[tuple[str, str, Callable[[Statistics], float]], ...]] = (
    ("connections", "Connections of the hop.", lambda told: told.connections),
    (
        "unix_connections",
        "Those that are unix sockets, between processes of one host.",
        lambda told: told.unix_connections,
    ),
    ("streams", "Calls on them, of which most are long streams.", lambda told: told.streams),
    (
        "held_bytes",
        "Received bytes that wait until their reader goes on.",
        lambda told: told.held_bytes,
    ),
    ("unsent_bytes", "Bytes that wait for sockets.", lambda told: told.unsent_bytes),
)
_COUNTERS: Final[tuple[tuple[str, str, Callable[[Statistics], float]], ...]] = (
    ("connections_opened", "Connections so far.", lambda told: told.connections_opened),
    ("streams_opened", "Calls so far.", lambda told: told.totals.streams_opened),
    ("received_bytes", "Bytes received.", lambda told: told.totals.bytes_received),
    ("sent_bytes", "Bytes handed to sockets.", lambda told: told.totals.bytes_sent),
    ("resets_received", "RST_STREAM frames of peers.", lambda told: told.totals.resets_received),
    ("resets_sent", "RST_STREAM frames to peers.", lambda told: told.totals.resets_sent),
    ("goaways_received", "GOAWAY frames of peers.", lambda told: told.totals.goaways_received),
    ("goaways_sent", "GOAWAY frames to peers.", lambda told: told.totals.goaways_sent),
    (
        "stalls",
        "Times that a call had more to send than its peer had room for.",
        lambda told: told.totals.stalls,
    ),
    (
        "given_up",
        "Connections that were closed because all together kept too much memory.",
        lambda told: told.totals.given_up,
    ),
)
_LABELS: Final = ("end",)


class HopCollector(Collector):
    """Reads statistics at a scrape. Over grpcio there are none."""

    def __init__(self, prefix: str, ends: dict[str, Callable[[], Statistics | None]]) -> None:
        """`prefix` is the service's; `ends` gives the statistics of "client" and "server"."""
        self._prefix = f"{prefix}_hop"
        self._ends = ends

    def collect(self) -> Iterable[Metric]:
        """One pass over all connections."""
        told = [(end, one) for end, read in self._ends.items() if (one := read()) is not None]
        for name, documentation, value in _GAUGES:
            gauge = GaugeMetricFamily(f"{self._prefix}_{name}", documentation, labels=_LABELS)
            for end, statistics in told:
                gauge.add_metric((end,), value(statistics))
            yield gauge
        for name, documentation, value in _COUNTERS:
            counter = CounterMetricFamily(f"{self._prefix}_{name}", documentation, labels=_LABELS)
            for end, statistics in told:
                counter.add_metric((end,), value(statistics))
            yield counter
