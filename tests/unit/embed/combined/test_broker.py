"""Two processes' worth of nodes with their gateways, on one loop, and a controller beside them."""

import asyncio
import socket
from contextlib import AsyncExitStack, ExitStack

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from highwater.balancer.config import BalancerConfig
from highwater.balancer.service import BalancerService
from highwater.embed.clients.kafka_client import KafkaClient
from highwater.embed.clients.readiness_probe import ask
from highwater.embed.combined.broker import CombinedBroker
from highwater.embed.combined.settings import load_combined
from highwater.gateway.sockets import port_block
from highwater.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
)
from highwater.kafka.messages.metadata import API_KEY as METADATA
from highwater.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
)
from highwater.model.errors import PortInUseError
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.logging import silent_logger
from tests.support.controller import started
from tests.support.log_batches import make_batch
from tests.support.process import free_port_block
from tests.support.wire import ConnectionEnded, RawConnection, only
from tests.unit.gateway.clients.partition_node import until

HOST, INSIDE = "127.0.0.1", "127.0.0.2"
TIMES = {
    "session_timeout_ms": 60_000,
    "heartbeat_interval_ms": 50,
    "internal_replication_factor": 1,
}


class Brokers:
    """Nodes from 1 on, all with the same bootstrap port."""

    def __init__(self, directory, controller, stack):
        self.directory = directory
        self.controller = controller
        self.stack = stack
        self.port = free_port_block(5)
        self.metrics_ports = {}

    def make(self, node, *, roles=("gateway", "partition"), port=None, **gateway):
        metrics_port = self.metrics_ports[node] = free_port_block(1)
        settings = load_combined(
            None,
            {
                "broker": {
                    "roles": list(roles),
                    "controllers": [self.controller.address],
                    "metrics.port": metrics_port,
                },
                "gateway": {
                    "host": HOST,
                    "port": self.port if port is None else port,
                    "drain_s": 0.2,
                    **gateway,
                },
                "partition": {
                    "node_id": node,
                    "port": 0,
                    "log_dirs": [str(self.directory / f"node-{node}")],
                    "quota_address": "",
                    "group_initial_rebalance_delay_ms": 0,
                },
            },
        )
        return CombinedBroker(settings, silent_logger())

    async def start(self, node, **settings):
        made = self.make(node, **settings)
        self.stack.push_async_callback(made.stop)
        await made.start()
        return made

    async def balanced(self, *hosts):
        """A balancer on HOST before gateways that have the same ports on these addresses."""
        config = BalancerConfig(
            host=HOST, port=self.port, ports=5, gateways=hosts, check_s=0.05, idle_s_max=60
        )
        made = BalancerService(config, registry=CollectorRegistry(), log=silent_logger())
        self.stack.push_async_callback(made.stop)
        await made.start()
        return made

    async def known(self, *brokers, nodes):
        """Returns when each broker's gateway knows so many live nodes."""
        await until(
            lambda: all(
                sum(not state.fenced for state in one.gateway.routing.image.nodes.values()) == nodes
                for one in brokers
            )
        )


@pytest.fixture
async def brokers(tmp_path):
    async with AsyncExitStack() as stack:
        controller = await started(serve_grpc=True, **TIMES)
        stack.push_async_callback(controller.stop)
        yield Brokers(tmp_path, controller, stack)


def in_thread(work, *arguments):
    return asyncio.to_thread(work, *arguments)


def create(port, name, *, partitions=1, factor=1):
    with KafkaClient(f"{HOST}:{port}") as client:
        client.create_topic(name, partitions=partitions, replication_factor=factor, configs={})


def leaders(port, name):
    with KafkaClient(f"{HOST}:{port}") as client:
        (topic,) = client.metadata([name]).topics
        return {p.partition_index: p.leader_id for p in topic.partitions}


def addresses(port, host=HOST):
    with KafkaClient(f"{host}:{port}") as client:
        return {b.node_id: (b.host, b.port) for b in client.metadata([]).brokers}


def produce(port, name, partition):
    """The error code and base offset."""
    with RawConnection(HOST, port) as connection:
        return produce_on(connection, name, partition)


def produce_on(connection, name, partition):
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[
            ProduceRequestTopicProduceData(
                name=name,
                partition_data=[
                    ProduceRequestPartitionProduceData(index=partition, records=bytes(make_batch()))
                ],
            )
        ],
    )
    (answer,) = only(connection.ask(request, 8).responses).partition_responses
    return answer.error_code, answer.base_offset


def fetch(port, name, partition):
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[
            FetchRequestFetchTopic(
                topic=name,
                partitions=[
                    FetchRequestFetchPartition(
                        partition=partition, fetch_offset=0, partition_max_bytes=1 << 20
                    )
                ],
            )
        ],
    )
    with RawConnection(HOST, port) as connection:
        (answer,) = only(connection.ask(request, 11).responses).partitions
        return answer.error_code, len(answer.records or b"")


def crossings(broker):
    """Groups of batches that went to other processes."""
    return broker.gateway.links.groups_sent


def fetch_crossings(broker):
    """Fetches that went to other processes."""
    return broker.gateway.links.fetches_sent


async def test_metadata_names_each_node_at_its_own_process(brokers):
    one = await brokers.start(1)
    two = await brokers.start(2)
    await brokers.known(one, two, nodes=2)
    port = brokers.port
    own = {1: (HOST, port + 1), 2: (HOST, port + 2)}
    for at in (port, port + 1, port + 2):
        assert await in_thread(addresses, at) == own
    assert one.gateway.routing.image.node_gateways == {
        1: f"{HOST}:{port + 1}",
        2: f"{HOST}:{port + 2}",
    }
    for broker, node in ((one, 1), (two, 2)):
        connection = asyncio.open_connection(HOST, port + node)
        before = broker.gateway.connections
        _, writer = await connection
        await until(lambda b=broker, n=before: b.gateway.connections == n + 1)
        writer.close()


async def test_a_client_that_follows_metadata_never_crosses_a_hop(brokers):
    one = await brokers.start(1)
    two = await brokers.start(2)
    await brokers.known(one, two, nodes=2)
    port = brokers.port
    await in_thread(create, port, "t")
    await in_thread(lambda: create(port, "spread", partitions=4))
    for name, count in (("t", 1), ("spread", 4)):
        led = await in_thread(leaders, port, name)
        for partition in range(count):
            at = port + led[partition]
            assert await in_thread(produce, at, name, partition) == (0, 0)
            assert (await in_thread(fetch, at, name, partition))[0] == 0
    assert set((await in_thread(leaders, port, "spread")).values()) == {1, 2}
    assert (crossings(one), crossings(two)) == (0, 0)
    assert (fetch_crossings(one), fetch_crossings(two)) == (0, 0)
    other = port + 3 - led[0]
    assert await in_thread(produce, other, "spread", 0) == (0, 1), "any process takes it"
    assert crossings(one) + crossings(two) == 1
    code, nbytes = await in_thread(fetch, other, "spread", 0)
    assert (code, nbytes) == (0, 2 * len(make_batch()))
    assert fetch_crossings(one) + fetch_crossings(two) == 1
    text = generate_latest(one.registry).decode()
    assert "highwater_gateway_append_groups_sent_total" in text
    assert "highwater_partition_" in text


async def test_shared_ports_go_to_the_process_that_is_left(brokers):
    one = await brokers.start(1)
    two = await brokers.start(2)
    await brokers.known(one, two, nodes=2)
    assert one.gateway._listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, None)
    await one.stop()
    await until(lambda: two.gateway._listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, None))
    await brokers.known(two, nodes=1)
    assert await in_thread(addresses, brokers.port) == {2: (HOST, brokers.port + 2)}
    again = await brokers.start(1)
    await brokers.known(again, two, nodes=2)
    await until(lambda: not two.gateway._listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 1))
    assert (await in_thread(addresses, brokers.port))[1] == (HOST, brokers.port + 1)


def bound(broker, listener):
    """The nodes whose ports of a listener the broker has; None is bootstrap."""
    has = broker.gateway._listener.has_port
    return {n for n in (None, 1, 2, 3) if has(listener, DEFAULT_INSTANCE, n)}


async def test_the_ports_of_every_listener_are_taken_over_and_given_back(brokers):
    inside = free_port_block(4, INSIDE)
    listeners = {"internal": {"host": INSIDE, "port": inside}}
    one = await brokers.start(1, listeners=listeners)
    two = await brokers.start(2, listeners=listeners)
    await brokers.start(3, roles=("partition",))
    await brokers.known(one, two, nodes=3)
    both = (DEFAULT_LISTENER, "internal")
    for name in both:
        await until(lambda of=name: bound(one, of) | bound(two, of) == {None, 1, 2, 3})
        assert not bound(one, name) & bound(two, name)
        assert (1 in bound(one, name), 2 in bound(two, name)) == (True, True)
    at_internal = {n: (INSIDE, inside + n) for n in (1, 2, 3)}
    assert await in_thread(addresses, inside + 3, INSIDE) == at_internal
    await one.stop()
    for name in both:
        await until(lambda of=name: bound(two, of) == {None, 1, 2, 3})
    with await in_thread(RawConnection, INSIDE, inside + 1) as left:
        again = await brokers.start(1, listeners=listeners)
        await brokers.known(again, two, nodes=3)
        for name in both:
            await until(lambda of=name: 1 in bound(again, of) and 1 not in bound(two, of))
            assert bound(two, name) == {None, 2, 3}
        # Who came by the port of node 1 meant that node.
        await in_thread(left.wait_for_close)
    assert await in_thread(addresses, inside, INSIDE) == at_internal
    outside = {n: (HOST, brokers.port + n) for n in (1, 2, 3)}
    assert await in_thread(addresses, brokers.port) == outside


async def test_a_node_needs_its_own_port(brokers, monkeypatch):
    monkeypatch.setattr(port_block, "OWN_PORT_WAIT_S", 0.5)
    with socket.create_server((HOST, brokers.port + 1)):
        made = brokers.make(1)
        try:
            with pytest.raises(PortInUseError, match=f"{HOST}:{brokers.port + 1}"):
                await made.start()
        finally:
            await made.stop()


async def test_a_stopping_node_hands_over_while_its_gateway_serves(brokers):
    one = await brokers.start(1)
    two = await brokers.start(2)
    await brokers.known(one, two, nodes=2)
    port = brokers.port
    await in_thread(lambda: create(port, "r", partitions=2, factor=2))
    led = await in_thread(leaders, port, "r")
    partition = next(number for number, leader in led.items() if leader == 1)
    assert await in_thread(produce, port + 1, "r", partition) == (0, 0)

    def go_on():
        """Produces through the process that stops, until it closes its connections."""
        answers = []
        with RawConnection(HOST, port + 1) as connection:
            while True:
                try:
                    answers.append(produce_on(connection, "r", partition))
                except (OSError, ConnectionEnded):
                    return answers

    going = asyncio.create_task(in_thread(go_on))
    await asyncio.sleep(0.2)
    async with asyncio.timeout(15):
        await one.stop()
        answers = await going
    assert crossings(one) > 0, "it served its clients when the other led already"
    assert {code for code, _ in answers} == {0}, "held for the next leader, not refused"
    assert [offset for _, offset in answers] == list(range(1, len(answers) + 1))
    await until(lambda: two.gateway.routing.image.nodes[1].fenced)
    code, nbytes = await in_thread(fetch, port + 2, "r", partition)
    # The last one may have been stored and its answer lost with the connection.
    assert code == 0
    assert nbytes // len(make_batch()) in (len(answers) + 1, len(answers) + 2)


async def test_one_endpoint_says_whether_every_service_is_ready(brokers):
    one = await brokers.start(1)
    port = brokers.metrics_ports[1]
    assert await in_thread(ask, HOST, port) == "ready"
    assert set(one.readiness.results()) == {"gateway", "partition"}


async def test_a_controller_as_a_third_role(tmp_path):
    port = free_port_block(2)
    controller_port = free_port_block(1)
    settings = load_combined(
        None,
        {
            "broker": {
                "roles": ["controller", "partition", "gateway"],
                "controllers": [f"{HOST}:{controller_port}"],
            },
            "controller": {
                "port": controller_port,
                "controller_id": "c",
                "data_dir": str(tmp_path / "controller"),
                "internal_replication_factor": 1,
            },
            "gateway": {"port": port, "drain_s": 0.1},
            "partition": {"port": 0, "log_dirs": [str(tmp_path / "node")], "quota_address": ""},
        },
    )
    broker = CombinedBroker(settings, silent_logger())
    await broker.start()
    try:
        assert broker.readiness.results() == {
            "controller": True,
            "partition": True,
            "gateway": True,
        }
        await in_thread(create, port, "t")
        assert await in_thread(produce, port + 1, "t", 0) == (0, 0)
    finally:
        await broker.stop()


async def test_a_node_without_a_gateway_is_served_by_another_s(brokers):
    one = await brokers.start(1)
    alone = await brokers.start(2, roles=("partition",))
    assert (alone.gateway, alone.partition is None) == (None, False)
    await brokers.known(one, nodes=2)
    await until(lambda: one.gateway._listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 2))
    assert await in_thread(addresses, brokers.port) == {
        1: (HOST, brokers.port + 1),
        2: (HOST, brokers.port + 2),
    }


def ask_often(port, count=8):
    """Metadata over so many connections, which are open at once."""
    with ExitStack() as stack:
        clients = [stack.enter_context(KafkaClient(f"{HOST}:{port}")) for _ in range(count)]
        for client in clients:
            assert client.metadata([]).brokers


def metadata_answered(broker):
    return broker.gateway.meters.apis[METADATA].requests


async def test_a_balancer_leads_to_the_node_s_own_gateway_while_that_is_there(brokers):
    proxied = {"proxy_protocol": True, "proxy_networks": ("127.0.0.0/8",)}
    behind = {"advertised_host": HOST, **proxied}
    alone = await brokers.start(9, roles=("gateway",), host="127.0.0.2", **behind)
    one = await brokers.start(1, host="127.0.0.3", **behind)
    await brokers.known(one, alone, nodes=1)
    balancer = await brokers.balanced("127.0.0.2", "127.0.0.3")
    await until(lambda: len(balancer.pool.up) == 2)
    await in_thread(ask_often, brokers.port + 1)
    assert (metadata_answered(one), metadata_answered(alone)) == (8, 0)
    await in_thread(ask_often, brokers.port)
    by_bootstrap = metadata_answered(alone)
    assert 0 < by_bootstrap < 8, "that port leads to every gateway"
    await one.stop()
    await until(lambda: alone.gateway._listener.has_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, 1))
    await in_thread(ask_often, brokers.port + 1)
    assert metadata_answered(alone) == by_bootstrap + 8
    again = await brokers.start(1, host="127.0.0.3", **behind)
    await brokers.known(again, alone, nodes=1)
    await until(lambda: len(balancer.pool.up) == 2)
    await in_thread(ask_often, brokers.port + 1)
    assert (metadata_answered(again), metadata_answered(alone)) == (8, by_bootstrap + 8)


async def test_a_member_s_failure_ends_the_process(brokers):
    one = await brokers.start(1)
    one.partition.failed.set_exception(OSError("every disk is gone"))
    async with asyncio.timeout(5):
        with pytest.raises(OSError, match="every disk is gone"):
            await one.failed
