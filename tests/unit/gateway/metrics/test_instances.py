"""What a scrape tells of each instance."""

from highwater.gateway.metrics.instances import InstanceCollector
from highwater.gateway.sockets.doors import Doors
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState
from highwater.runtime.logging import silent_logger

A = InstanceId("a")


def test_connections_refusals_and_missing_ports_by_instance():
    doors = Doors(set(), log=silent_logger(), now_ms=lambda: 0)
    doors.of(DEFAULT_INSTANCE).add(object())
    doors.follow({A: InstanceState(instance=A, allowed_networks=())})
    for _ in range(3):
        doors.of(A).lets_in("10.0.0.1")
    doors.of(A).failed_logins += 2
    samples = {
        (s.name.removeprefix("highwater_gateway_instance_"), *s.labels.values()): s.value
        for family in InstanceCollector(doors, lambda: {A: 2}).collect()
        for s in family.samples
    }
    assert samples["connections", DEFAULT_INSTANCE] == 1
    assert samples["connections", A] == 0
    assert samples["refused_connections_total", A, "network"] == 3
    assert samples["refused_connections_total", A, "limit"] == 0
    assert samples["refused_connections_total", DEFAULT_INSTANCE, "network"] == 0
    assert samples["failed_logins_total", A] == 2
    assert samples["failed_logins_total", DEFAULT_INSTANCE] == 0
    assert samples["ports_missing", A] == 2
