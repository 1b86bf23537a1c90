"""The controller's metrics, computed from its present term at each scrape."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from highwater.controller.active.active import ActiveController


class ControllerMetrics(Collector):
    """Gauges computed on demand from the image."""

    def __init__(
        self,
        registry: CollectorRegistry,
        active: Callable[[], ActiveController | None],
        refuses: Callable[[], bool] = lambda: False,
    ) -> None:
        """`refuses`: this controller does not stand for election, since its store went back."""
        self._active = active
        self._refuses = refuses
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """The gauges; a standby has only the first two."""
        term = self._active()
        yield GaugeMetricFamily(
            "highwater_controller_active",
            "1 on the active controller",
            value=float(term is not None),
        )
        yield GaugeMetricFamily(
            "highwater_controller_refuses_to_lead",
            "1 while the metadata store lacks what was in it before",
            value=float(self._refuses()),
        )
        if term is None:
            return
        image = term.image
        values = {
            "epoch": ("Controller epoch", image.controller_epoch),
            "revision": ("Revision of the cluster image", image.revision),
            "topics": ("Topics", len(image.topics)),
            "partitions": ("Partitions", sum(len(t.partitions) for t in image.topics.values())),
            "leaderless_partitions": ("Partitions without a leader", term.index.leaderless),
            "unpreferred_leaders": (
                "Partitions that their preferred replica does not lead",
                len(term.index.led_by_others),
            ),
            "nodes": ("Registered partition nodes", len(image.nodes)),
            "fenced_nodes": ("Fenced nodes", sum(n.fenced for n in image.nodes.values())),
            "gateways": ("Gateways", len(image.gateways)),
        }
        for name, (meaning, value) in values.items():
            yield GaugeMetricFamily(f"highwater_controller_{name}", meaning, value=float(value))
        yield CounterMetricFamily(
            "highwater_controller_unclean_elections",
            "Leaders chosen in this term that may miss records which were committed",
            value=float(term.unclean.total),
        )
