"""The stack of deploy/compose.yaml in a real engine, used from outside by an ordinary client.

The tests share one stack and leave it whole, in this order: what is scaled stays so, and the last
ones stop everything.
"""

from __future__ import annotations

import pytest

from tests.docker.clients import (
    PATIENCE_S,
    Writer,
    admin,
    assert_exactly_once,
    brokers,
    commit_all,
    consumer,
    make_topic,
    partitions_of,
    wait_until_in_sync,
)
from tests.docker.commands import printed
from tests.docker.internal_listener import use_the_internal_listener
from tests.docker.stack import wait_for
from tests.docker.tenant import use_a_tenants_port

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 6
OVERLAY = ("compose.shared-reads.yaml",)


STRANGER = """
import sys, grpc
address, method = sys.argv[1:]
with grpc.insecure_channel(address) as channel:
    try:
        channel.unary_unary(f"/highwater.api.{method}")(b"", timeout=30)
    except grpc.RpcError as error:
        print(error.code().name)
"""
"""Calls a service without the secret, and prints the code."""


@pytest.fixture
def topic(stack):
    return make_topic(stack.bootstrap, PARTITIONS)


def wait_for_brokers(stack, *nodes):
    wait_for(lambda: set(brokers(stack.bootstrap)) == set(nodes), PATIENCE_S, stack.describe)


def kill(container):
    """SIGKILL; the engine starts nothing again that was killed by hand."""
    container.kill(signal="KILL")
    container.reload()
    assert container.status == "exited"


def test_every_node_has_a_port_of_the_block(stack):
    wait_for_brokers(stack, 1, 2, 3)
    assert {id_: (b.host, b.port) for id_, b in brokers(stack.bootstrap).items()} == {
        node: (stack.host, stack.port + node) for node in (1, 2, 3)
    }


def test_nobody_runs_as_root_and_images_are_sealed(stack):
    for container in stack.containers():
        assert int(printed(container, ["id", "-u"])) > 0, container.name
        code, _ = container.exec_run(["touch", "/opt/changed"])
        assert code != 0, container.name


def test_inner_ports_refuse_who_does_not_show_the_secret(stack):
    (made,) = stack.containers("secret")
    assert (made.status, made.attrs["State"]["ExitCode"]) == ("exited", 0)
    gateway, node = stack.containers("gateway")[0], stack.containers("partition")[0]
    found = printed(gateway, ["stat", "--format", "%a %u", "/secret/inner"])
    assert found.split() == ["600", "10001"]
    code, _ = gateway.exec_run(["touch", "/secret/inner"])
    assert code != 0, "read-only"
    for address, method in (
        ("controller-1:9300", "controller.v1.ControllerService/Heartbeat"),
        ("quota:9400", "quota.v1.QuotaService/Report"),
        (f"{node.id[:12]}:9500", "partition.v1.PartitionService/ListOffsets"),
    ):
        told = printed(gateway, ["python3", "-c", STRANGER, address, method])
        assert told.split() == ["UNAUTHENTICATED"], address

    listing = ["highwater", "instance", "list", "--controller", "controller-1:9300"]
    controller = stack.containers("controller-1")[0]
    code, told = controller.exec_run(listing)
    assert code == 0, told
    code, told = controller.exec_run(listing, environment={"HIGHWATER_SECRET_FILE": ""})
    assert code != 0, told


def test_what_is_produced_outside_is_consumed_outside(stack, topic):
    with Writer(stack.bootstrap, topic, pause_s=0) as writer:
        writer.wait_for_more(5_000)
    assert_exactly_once(stack.bootstrap, topic, writer)


def test_topics_made_by_the_way_have_three_replicas_too(stack, topic):
    made = f"{topic}-by-the-way"
    with Writer(stack.bootstrap, made) as writer:
        writer.wait_for_more(10)
    assert writer.errors == []
    found = partitions_of(stack.bootstrap, made)
    assert {len(one.replicas) for one in found.values()} == {3}


def test_a_container_of_the_network_uses_the_internal_listener(stack, topic):
    use_the_internal_listener(stack, topic)


def test_a_tenant_is_reached_by_its_port(stack, topic):
    use_a_tenants_port(stack, topic)


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
    # Where an engine's own proxy takes connections, they come from the network's gateway.
    assert member.host == f"/{stack.client_address or network['Gateway']}"
    assert member.host != f"/{network['IPAddress']}"


def test_killing_a_partition_container_under_load_loses_nothing(stack, topic):
    (victim,) = [
        one for one in stack.containers("partition") if stack.metric(one, "partition_leaders") > 0
    ][:1]
    with Writer(stack.bootstrap, topic) as writer:
        writer.wait_for_more(500)
        kill(victim)
        writer.wait_for_more(1_000)
        led = partitions_of(stack.bootstrap, topic).values()
        assert len({one.leader for one in led}) == 2, "the others lead"
        victim.start()
        wait_until_in_sync(stack.bootstrap, topic, PARTITIONS)
        writer.wait_for_more(500)
    assert_exactly_once(stack.bootstrap, topic, writer)
    wait_for_brokers(stack, 1, 2, 3)  # It is the node that it was.


@pytest.mark.full
def test_killing_the_active_controller_lets_the_other_take_over(stack, topic):
    def active():
        both = stack.containers("controller-1") + stack.containers("controller-2")
        running = [one for one in both if one.status == "running"]
        return [one for one in running if stack.metric(one, "controller_active") == 1]

    (victim,) = wait_for(active, PATIENCE_S, stack.describe)
    with Writer(stack.bootstrap, topic) as writer:
        writer.wait_for_more(300)
        kill(victim)
        (other,) = wait_for(active, PATIENCE_S, stack.describe)
        assert other.name != victim.name
        another = make_topic(stack.bootstrap, PARTITIONS)
        writer.wait_for_more(300)
    assert_exactly_once(stack.bootstrap, topic, writer)
    with Writer(stack.bootstrap, another) as writer:
        writer.wait_for_more(100)
    assert_exactly_once(stack.bootstrap, another, writer)
    victim.start()


@pytest.mark.full
def test_clients_of_a_killed_gateway_come_back_through_the_balancer(stack, topic):
    (balancer,) = stack.containers("balancer")
    victim, other = stack.containers("gateway")
    with Writer(stack.bootstrap, topic) as writer:
        writer.wait_for_more(300)
        assert stack.metric(victim, "gateway_connections") > 0, "it has something to lose"
        kill(victim)
        wait_for(lambda: stack.metric(balancer, "balancer_gateways_up") == 1, PATIENCE_S)
        writer.wait_for_more(500)
        assert stack.metric(other, "gateway_connections") > 0
        victim.start()
        wait_for(lambda: stack.metric(balancer, "balancer_gateways_up") == 2, PATIENCE_S)
    assert_exactly_once(stack.bootstrap, topic, writer)


def test_gateways_and_nodes_are_added_under_load(stack, topic):
    (balancer,) = stack.containers("balancer")
    with Writer(stack.bootstrap, topic) as writer:
        writer.wait_for_more(100)
        stack.up(gateway=3, partition=4)
        wait_for(lambda: stack.metric(balancer, "balancer_gateways_up") == 3, PATIENCE_S)
        wait_for_brokers(stack, 1, 2, 3, 4)
        writer.wait_for_more(100)
    assert_exactly_once(stack.bootstrap, topic, writer)

    spread = make_topic(stack.bootstrap, 8)
    found = partitions_of(stack.bootstrap, spread).values()
    assert {one.leader for one in found} == {1, 2, 3, 4}
    assert {node for one in found for node in one.replicas} == {1, 2, 3, 4}
    with Writer(stack.bootstrap, spread, pause_s=0) as writer:
        writer.wait_for_more(2_000)
        held = [stack.metric(one, "gateway_connections") for one in stack.containers("gateway")]
    assert len(held) == 3
    assert min(held) > 0, held
    assert_exactly_once(stack.bootstrap, spread, writer)


@pytest.mark.full
def test_gateways_read_the_nodes_files_with_the_overlay(stack, topic):
    def open_files():
        return sum(
            stack.metric(one, "gateway_open_segment_files") for one in stack.containers("gateway")
        )

    assert open_files() == 0, "without it bytes come through the hop"
    stack.up(overlays=OVERLAY, gateway=3, partition=4)
    gateway = stack.containers("gateway")[0]
    assert len(printed(gateway, ["cat", "/data/node-1/.highwater_incarnation"])) == 32
    code, _ = gateway.exec_run(["touch", "/data/node-1/written"])
    assert code != 0, "read-only"
    with Writer(stack.bootstrap, topic, pause_s=0) as writer:
        writer.wait_for_more(5_000)
    assert_exactly_once(stack.bootstrap, topic, writer)
    assert open_files() > 0


@pytest.mark.full
def test_new_containers_take_up_the_nodes_of_the_volume(stack, topic):
    with Writer(stack.bootstrap, topic, pause_s=0) as writer:
        writer.wait_for_more(2_000)
    for one in stack.containers("partition"):
        one.remove(force=True)
    stack.up(overlays=OVERLAY, gateway=3, partition=4)
    assert_exactly_once(stack.bootstrap, topic, writer)
    assert set(brokers(stack.bootstrap)) == {1, 2, 3, 4}


@pytest.mark.full
def test_etcd_loses_a_member_and_gets_it_back(stack, topic):
    (victim,) = stack.containers("etcd-2")
    with Writer(stack.bootstrap, topic) as writer:
        writer.wait_for_more(100)
        kill(victim)
        another = make_topic(stack.bootstrap, PARTITIONS)
        writer.wait_for_more(100)
        victim.start()
        stack.wait_until_healthy()
    assert_exactly_once(stack.bootstrap, topic, writer)
    assert len(partitions_of(stack.bootstrap, another)) == PARTITIONS


@pytest.mark.full
def test_one_kill_after_another_under_load(stack, topic):
    with Writer(stack.bootstrap, topic) as writer:
        for service in ("partition", "gateway"):
            for victim in stack.containers(service):
                kill(victim)
                writer.wait_for_more(200)
                victim.start()
                wait_until_in_sync(stack.bootstrap, topic, PARTITIONS)
                stack.wait_until_healthy()
    assert_exactly_once(stack.bootstrap, topic, writer)


@pytest.mark.full
def test_what_was_stopped_and_started_has_kept_everything(stack, topic):
    with Writer(stack.bootstrap, topic, pause_s=0) as writer:
        writer.wait_for_more(2_000)
    count = len(writer.acked)
    commit_all(stack.bootstrap, topic, f"g-{topic}", count)
    stack.stop()
    ended = {one.name: one.attrs["State"]["ExitCode"] for one in stack.containers()}
    assert set(ended.values()) == {0}, ended

    stack.start()
    wait_until_in_sync(stack.bootstrap, topic, PARTITIONS)
    assert_exactly_once(stack.bootstrap, topic, writer)
    with Writer(stack.bootstrap, topic) as later:
        later.wait_for_more(10)
    # The group goes on where it was: it has only the later ones to read.
    reader = consumer(stack.bootstrap, topic, f"g-{topic}")
    found = []
    try:
        wait_for(
            lambda: found.extend(reader.consume(1000, 1.0)) or len(found) >= len(later.acked),
            PATIENCE_S,
        )
    finally:
        reader.close()
    assert {one.value() for one in found} == later.acked
    assert len(found) == len(later.acked)
