"""The stack of deploy/compose.nodes.yaml: each node is its own gateway, behind one balancer.

The tests share one stack and leave it whole, in this order. What it has in common with compose.yaml is
tested there.
"""

from __future__ import annotations

import pytest

from tests.docker.clients import (
    PATIENCE_S,
    Writer,
    assert_exactly_once,
    brokers,
    make_topic,
    partitions_of,
    wait_until_in_sync,
)
from tests.docker.internal_listener import use_the_internal_listener
from tests.docker.stack import wait_for
from tests.docker.tenant import use_a_tenants_port

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 6


@pytest.fixture
def topic(nodes_stack):
    return make_topic(nodes_stack.bootstrap, PARTITIONS)


def wait_for_nodes(stack, *nodes):
    def found():
        return {id_: (b.host, b.port) for id_, b in brokers(stack.bootstrap).items()}

    wanted = {node: (stack.host, stack.port + node) for node in nodes}
    wait_for(lambda: found() == wanted, PATIENCE_S, stack.describe)


def crossings(stack):
    """Groups of batches, and fetches, that went from one node's gateway to another node."""
    names = ("gateway_append_groups_sent_total", "gateway_fetches_sent_total")
    return [sum(stack.metric(one, name) for one in stack.containers("node")) for name in names]


def test_clients_meet_the_process_that_leads(nodes_stack, topic):
    stack = nodes_stack
    wait_for_nodes(stack, 1, 2, 3)
    before = crossings(stack)
    with Writer(stack.bootstrap, topic, pause_s=0) as writer:
        writer.wait_for_more(5_000)
    assert_exactly_once(stack.bootstrap, topic, writer)
    assert crossings(stack) == before


def test_a_container_of_the_network_meets_each_node_by_the_internal_listener(nodes_stack, topic):
    before = crossings(nodes_stack)
    hosts = use_the_internal_listener(nodes_stack, topic)
    assert len(set(hosts.values())) == 3, "each node's own container"
    assert crossings(nodes_stack) == before


def test_a_tenant_is_reached_by_its_port(nodes_stack, topic):
    use_a_tenants_port(nodes_stack, topic)


def test_killing_a_node_under_load_loses_nothing(nodes_stack, topic):
    stack = nodes_stack
    (victim,) = [
        one for one in stack.containers("node") if stack.metric(one, "partition_leaders") > 0
    ][:1]
    with Writer(stack.bootstrap, topic) as writer:
        writer.wait_for_more(500)
        victim.kill(signal="KILL")
        writer.wait_for_more(1_000)
        led = partitions_of(stack.bootstrap, topic).values()
        assert len({one.leader for one in led}) == 2, "the others lead"
        victim.start()
        wait_until_in_sync(stack.bootstrap, topic, PARTITIONS)
        writer.wait_for_more(500)
    assert_exactly_once(stack.bootstrap, topic, writer)
    wait_for_nodes(stack, 1, 2, 3)  # It is the node that it was.


@pytest.mark.full
def test_nodes_are_added_under_load(nodes_stack, topic):
    stack = nodes_stack
    with Writer(stack.bootstrap, topic) as writer:
        writer.wait_for_more(100)
        stack.up(node=4)
        wait_for_nodes(stack, 1, 2, 3, 4)
        writer.wait_for_more(100)
    assert_exactly_once(stack.bootstrap, topic, writer)
    spread = make_topic(stack.bootstrap, 8)
    assert {p.leader for p in partitions_of(stack.bootstrap, spread).values()} == {1, 2, 3, 4}
    with Writer(stack.bootstrap, spread, pause_s=0) as writer:
        writer.wait_for_more(2_000)
    assert_exactly_once(stack.bootstrap, spread, writer)


@pytest.mark.full
def test_what_was_stopped_and_started_has_kept_everything(nodes_stack, topic):
    stack = nodes_stack
    with Writer(stack.bootstrap, topic, pause_s=0) as writer:
        writer.wait_for_more(2_000)
    stack.stop()
    ended = {one.name: one.attrs["State"]["ExitCode"] for one in stack.containers()}
    assert set(ended.values()) == {0}, ended
    stack.start()
    wait_until_in_sync(stack.bootstrap, topic, PARTITIONS)
    assert_exactly_once(stack.bootstrap, topic, writer)
