"""Which ports of instances a balancer publishes."""

from dataclasses import replace

import pytest

from highwater.balancer.core.instance_blocks import instance_ports
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER
from tests.support.controller_images import image_with


def image(*states, nodes=2):
    return replace(image_with(nodes), instances={state.instance: state for state in states})


def tenant(name="a", **listener):
    more = {"purge_at_ms": listener.pop("purge_at_ms", None)}
    return InstanceState(
        instance=InstanceId(name), listeners=(InstanceListener(**listener),), **more
    )


def ports(*states, listener=DEFAULT_LISTENER, nodes=2):
    return instance_ports(image(*states, nodes=nodes), listener)


def test_a_block_has_the_bootstrap_port_and_one_for_each_node():
    assert ports(tenant(port=20000)) == {20000: 20000, 20001: 20001, 20002: 20002}
    assert ports(tenant(port=20000), nodes=0) == {20000: 20000}


def test_clients_are_told_the_advertised_port_which_leads_to_the_gateways_port():
    told = tenant(port=20000, advertised_port=30000)
    assert ports(told) == {30000: 20000, 30001: 20001, 30002: 20002}


@pytest.mark.parametrize(
    "state",
    [
        tenant(port=20000, listener="internal"),
        tenant(port=20000, purge_at_ms=1),
        tenant(DEFAULT_INSTANCE, port=20000),
        InstanceState(instance=InstanceId("a")),
    ],
)
def test_what_clients_do_not_reach_is_not_published(state):
    assert ports(state) == {}


def test_another_listener_has_blocks_of_its_own():
    assert ports(tenant(port=20000, listener="internal"), listener="internal", nodes=0) == {
        20000: 20000
    }


def test_of_two_instances_with_a_port_the_first_has_it():
    both = (tenant("b", port=20000), tenant("a", port=10001, advertised_port=20001))
    assert ports(*both, nodes=1) == {20000: 20000, 20001: 10001, 20002: 10002}


def test_ports_end():
    assert ports(tenant(port=65_534)) == {65_534: 65_534, 65_535: 65_535}
