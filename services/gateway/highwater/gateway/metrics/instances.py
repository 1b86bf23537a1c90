"""What a gateway tells Prometheus of each instance: its connections, refusals, and ports that are not open."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from highwater.gateway.metrics.gateway import PREFIX
from highwater.gateway.sockets.door import Reason
from highwater.gateway.sockets.doors import Doors
from highwater.model.ids import InstanceId


class InstanceCollector(Collector):
    """Prometheus' view of a gateway's instances. Operators read it, not tenants."""

    def __init__(self, doors: Doors, missing_ports: Callable[[], Mapping[InstanceId, int]]) -> None:
        """`missing_ports`: how many ports could not be opened, of each instance that has ports."""
        self._doors = doors
        self._missing_ports = missing_ports

    def collect(self) -> Iterable[Metric]:
        """One pass over all instances."""
        connections = GaugeMetricFamily(
            f"{PREFIX}_instance_connections",
            "Client connections of an instance.",
            labels=("instance",),
        )
        refused = CounterMetricFamily(
            f"{PREFIX}_instance_refused_connections",
            "Connections that an instance did not let in: their address is not allowed (network), it has "
            "as many as it may have (limit), it is being deleted (shut).",
            labels=("instance", "reason"),
        )
        failed = CounterMetricFamily(
            f"{PREFIX}_instance_failed_logins",
            "Logins to an instance that were refused.",
            labels=("instance",),
        )
        for door in self._doors:
            failed.add_metric((door.instance,), door.failed_logins)
            connections.add_metric((door.instance,), len(door.connections))
            for reason in Reason:
                refused.add_metric((door.instance, reason.name.lower()), door.refused[reason])
        yield connections
        yield refused
        yield failed
        missing = GaugeMetricFamily(
            f"{PREFIX}_instance_ports_missing",
            "Ports of an instance that could not be opened; they are tried again.",
            labels=("instance",),
        )
        for instance, count in self._missing_ports().items():
            missing.add_metric((instance,), count)
        yield missing
