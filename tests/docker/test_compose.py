"""The stack of deploy/compose.yaml in a real engine, used from outside by an ordinary client.

The tests share one stack and leave it whole; the last one stops it.
"""

from __future__ import annotations

import uuid

import pytest

from tests.docker.clients import PATIENCE_S, Writer, admin, consumer, make_topic, read
from tests.docker.stack import HOST, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture
def topic(stack):
    name = f"t-{uuid.uuid4().hex[:8]}"
    make_topic(stack.bootstrap, name, 6)
    return name


def brokers(stack):
    return admin(stack.bootstrap).list_topics(timeout=30).brokers


def test_every_node_has_a_port_of_the_block(stack):
    found = wait_for(lambda: len(brokers(stack)) == 3 and brokers(stack), PATIENCE_S)
    assert {id_: (b.host, b.port) for id_, b in found.items()} == {
        node: (HOST, stack.port + node) for node in (1, 2, 3)
    }


def test_nobody_runs_as_root_and_images_are_sealed(stack):
    for container in stack.containers():
        code, output = container.exec_run(["id", "-u"])
        assert (code, int(output) > 0) == (0, True), container.name
        code, _ = container.exec_run(["touch", "/opt/changed"])
        assert code != 0, container.name


def test_what_is_produced_outside_is_consumed_outside(stack, topic):
    with Writer(stack.bootstrap, topic, pause_s=0) as writer:
        writer.wait_for_more(5_000)
    assert writer.errors == []
    found = read(stack.bootstrap, topic, writer.acked, f"g-{topic}")
    assert sorted(found) == sorted(writer.acked), "each once"


def test_the_cluster_sees_clients_addresses_and_not_the_balancers(stack, topic):
    reader = consumer(stack.bootstrap, topic, f"g-{topic}")
    asker = admin(stack.bootstrap)  # Its futures end with it.
    try:
        wait_for(lambda: reader.poll(0.5) is None and reader.assignment(), PATIENCE_S)
        described = asker.describe_consumer_groups([f"g-{topic}"])
        (member,) = described[f"g-{topic}"].result(30).members
    finally:
        reader.close()
    balancer = stack.containers("balancer")[0]
    (network,) = balancer.attrs["NetworkSettings"]["Networks"].values()
    # Clients of this machine come from the network's own gateway.
    assert member.host == f"/{network['Gateway']}"


def test_killing_a_partition_container_loses_nothing(stack, topic):
    victim = stack.containers("partition")[1]
    with Writer(stack.bootstrap, topic) as writer:
        writer.wait_for_more(500)
        before = set(writer.acked)
        victim.kill()
        victim.reload()
        assert victim.status == "exited"
        victim.start()
        writer.wait_for_more(1_000)
    assert writer.errors == []
    assert before < writer.acked
    found = read(stack.bootstrap, topic, writer.acked, f"g-{topic}")
    assert sorted(found) == sorted(writer.acked), "each once"
    assert len(brokers(stack)) == 3, "it is the node that it was"


def test_gateways_are_added_and_go(stack, topic):
    (balancer,) = stack.containers("balancer")
    with Writer(stack.bootstrap, topic) as writer:
        stack.up(gateway=3)
        up = "highwater_balancer_gateways_up"
        wait_for(lambda: stack.metrics(balancer)[up] == 3, PATIENCE_S, stack.describe)
        opened = [consumer(stack.bootstrap, topic, f"g{n}-{topic}") for n in range(3)]
        try:
            for one in opened:
                one.poll(5.0)
            held = [
                stack.metrics(one)["highwater_gateway_connections"]
                for one in stack.containers("gateway")
            ]
            assert len(held) == 3
            assert min(held) > 0, held
        finally:
            for one in opened:
                one.close()
        stack.up(gateway=2)
        writer.wait_for_more(500)
    assert writer.errors == []
    found = read(stack.bootstrap, topic, writer.acked, f"g-{topic}")
    assert sorted(found) == sorted(writer.acked), "each once"


def test_nodes_are_added_and_take_up_what_was_left(stack):
    stack.up(partition=4)
    wait_for(lambda: set(brokers(stack)) == {1, 2, 3, 4}, PATIENCE_S, stack.describe)
    name = f"t-{uuid.uuid4().hex[:8]}"
    make_topic(stack.bootstrap, name, 8)
    leaders = admin(stack.bootstrap).list_topics(name, timeout=30).topics[name].partitions
    assert {one.leader for one in leaders.values()} == {1, 2, 3, 4}
    with Writer(stack.bootstrap, name, pause_s=0) as writer:
        writer.wait_for_more(2_000)
    for one in stack.containers("partition"):
        one.remove(force=True)
    stack.up(partition=4)  # New containers: they find the nodes in the volume.
    found = read(stack.bootstrap, name, writer.acked, f"g-{name}")
    assert sorted(found) == sorted(writer.acked), "each once"
    assert set(brokers(stack)) == {1, 2, 3, 4}


def test_gateways_read_the_nodes_files_with_the_overlay(stack, topic):
    stack.up(overlays=("compose.shared-reads.yaml",), partition=4)
    gateway = stack.containers("gateway")[0]
    code, token = gateway.exec_run(["cat", "/data/node-1/.highwater_incarnation"])
    assert (code, len(token)) == (0, 32)
    code, _ = gateway.exec_run(["touch", "/data/node-1/written"])
    assert code != 0, "read-only"
    with Writer(stack.bootstrap, topic, pause_s=0) as writer:
        writer.wait_for_more(20_000)
    found = read(stack.bootstrap, topic, writer.acked, f"g-{topic}")
    assert sorted(found) == sorted(writer.acked), "each once"


def test_everything_stops_by_itself(stack):
    stack.stop()
    ended = {one.name: one.attrs["State"]["ExitCode"] for one in stack.containers()}
    assert set(ended.values()) == {0}, ended
