"""Addresses of instances at gateways."""

from highwater.model.cluster import GatewayListener, GatewayState
from highwater.model.ids import GatewayId, InstanceId, NodeId
from highwater.model.instances import InstanceListener, InstanceState

TWO = NodeId(2)
GATEWAY = GatewayState(
    gateway_id=GatewayId("g"),
    host="public.example",
    port=9092,
    single_port=False,
    listeners=(GatewayListener(name="internal", host="g.internal", port=19092),),
)


def test_a_block_of_an_instance_hangs_on_a_listener() -> None:
    block = InstanceListener(port=20000)
    assert GATEWAY.address_of(TWO, "default", block) == ("public.example", 20002)
    assert GATEWAY.address_of(TWO, "internal", block) == ("g.internal", 20002)
    assert GATEWAY.address_of(TWO, "unknown", block) is None
    assert GATEWAY.address_of(TWO, "default") == ("public.example", 9094)


def test_an_instance_may_be_told_under_another_address() -> None:
    block = InstanceListener(port=20000, advertised_host="shop.example", advertised_port=30000)
    assert GATEWAY.address_of(TWO, "default", block) == ("shop.example", 30002)


def test_gateways_on_one_host_shift_the_ports() -> None:
    shifted = GatewayState(
        gateway_id=GatewayId("g2"), host="h", port=9192, single_port=False, instance_port_shift=100
    )
    assert shifted.address_of(TWO, "default", InstanceListener(port=20000)) == ("h", 20102)


def test_a_single_port_is_every_nodes() -> None:
    single = GatewayState(gateway_id=GatewayId("g"), host="h", port=9092, single_port=True)
    assert single.address_of(TWO, "default", InstanceListener(port=20000)) == ("h", 20000)


def test_an_instance_finds_its_block_by_the_listeners_name() -> None:
    block = InstanceListener(port=20000, listener="internal")
    state = InstanceState(instance=InstanceId("shop"), listeners=(block,))
    assert state.listener("internal") is block
    assert state.listener("default") is None


def test_limits_that_nodes_meter():
    assert not InstanceState(instance=InstanceId("a"), partitions_max=1).has_traffic_limits
    for limit in ("produce_bytes_per_second", "consume_bytes_per_second", "storage_bytes"):
        assert InstanceState(instance=InstanceId("a"), **{limit: 0}).has_traffic_limits
