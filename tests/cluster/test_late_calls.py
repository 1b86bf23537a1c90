"""Calls of transactions that come late: their client has given them up, and ends its next transaction with
another connection. The client is one of transaction.version 1, whose transactions all have the same epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.gateway.core.standstill import BACKLOG_MS, STANDSTILL_MS
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestAddPartitionsToTxnTopic,
)
from highwater.kafka.messages.describe_transactions import DescribeTransactionsRequest
from highwater.kafka.messages.end_txn import EndTxnRequest
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.kafka.messages.init_producer_id import InitProducerIdRequest
from highwater.model.ids import TRANSACTION_STATE_TOPIC
from highwater.runtime.silent_peers import SILENT_S
from tests.cluster import replicated as three
from tests.support.cluster_view import view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.node_network import NodeNetwork
from tests.support.process import wait_until
from tests.support.replicated.hosts import LOOPBACK
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.wire import RawConnection, only

pytestmark = pytest.mark.etcd

SHAPE = Shape(
    controllers=1,
    etcd_members=1,
    gateways=2,
    settings={"controller": three.FAST_SESSIONS, "gateway": {"transaction_state_partitions": "1"}},
)
FORMS = ("split", "combined", "grpcio")
PATIENCE_S = 20.0
DELAYED_ACK_S = 0.2
"""For the last answer to be acknowledged: the kernel asks only a peer to which nothing is under way."""
TRANSACTION = 1
"""The type of coordinator that FindCoordinator looks for."""
PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Payer:
    """A producer with a transactional id, whose calls go where the test sends them."""

    def __init__(self, name: str, topic: str) -> None:
        self.name = name
        self._topic = topic
        self._producer = (-1, -1)

    def initialize(self, connection: RawConnection) -> None:
        request = InitProducerIdRequest(self.name, 60_000)
        told = _persist(lambda: connection.ask(request, 4))
        self._producer = (told.producer_id, told.producer_epoch)

    def begin(self, connection: RawConnection) -> None:
        """Begins a transaction, by its first partition."""
        part = AddPartitionsToTxnRequestAddPartitionsToTxnTopic(self._topic, (0,))
        request = AddPartitionsToTxnRequest((), self.name, *self._producer, (part,))
        _persist(
            lambda: only(
                only(connection.ask(request, 3).results_by_topic_v3_and_below).results_by_partition
            )
        )

    @property
    def commit(self) -> EndTxnRequest:
        """To be sent in version 3."""
        return EndTxnRequest(self.name, *self._producer, True)

    def end(self, connection: RawConnection) -> None:
        _persist(lambda: connection.ask(self.commit, 3))

    def state(self, connection: RawConnection) -> str:
        request = DescribeTransactionsRequest((self.name,))
        told = only(connection.ask(request, 0).transaction_states)
        assert told.error_code == 0
        return str(told.transaction_state)


def _persist(call: Callable[[], Any]) -> Any:
    """Repeats a call while its answer says that this may help; returns the answer without an error."""
    answers: list[Any] = []

    def answered() -> bool:
        answers.append(call())
        return _code(answers[-1]) not in PASSING

    wait_until(answered, timeout_s=PATIENCE_S, what="an answer")
    assert _code(answers[-1]) == 0
    return answers[-1]


def _code(answer: Any) -> int:
    slots = type(answer).__slots__
    name = "error_code" if "error_code" in slots else "partition_error_code"
    return int(getattr(answer, name))


def connect(cluster: ReplicatedCluster, node: int, *, gateway: int) -> RawConnection:
    """To the port of a node, at a gateway without a node if there are any."""
    if gateway in cluster.gateway_ids:
        return RawConnection(LOOPBACK, cluster.ports.gateways[gateway] + node)
    return RawConnection.to(cluster.own_address(node))


def coordinator_of(cluster: ReplicatedCluster, payer: Payer) -> int:
    """The node; makes the topic of transactions if there is none."""
    request = FindCoordinatorRequest("", TRANSACTION, [payer.name])
    with RawConnection.to(cluster.bootstrap) as connection:
        found = _persist(lambda: only(connection.ask(request, 4).coordinators))
    return int(found.node_id)


def move_coordinator(cluster: ReplicatedCluster) -> int:
    """Has the next replica lead the topic of transactions; returns the node."""
    part = view(cluster.bootstrap, TRANSACTION_STATE_TOPIC)[0]
    others = [node for node in part.replicas if node != part.leader]
    with KafkaClient(cluster.bootstrap) as client:
        client.reassign(TRANSACTION_STATE_TOPIC, {0: [*others, part.leader]})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    chosen = [TopicPartition(TRANSACTION_STATE_TOPIC, 0)]

    def elected() -> bool:
        admin.elect_leaders(ElectionType.PREFERRED, chosen).result(PATIENCE_S)
        return view(cluster.bootstrap, TRANSACTION_STATE_TOPIC)[0].leader == others[0]

    wait_until(elected, timeout_s=PATIENCE_S, what="another coordinator", poll_s=0.2)
    for bootstrap in cluster.bootstraps.split(","):
        wait_for_view(
            bootstrap,
            TRANSACTION_STATE_TOPIC,
            lambda parts: parts[0].leader == others[0],
            timeout_s=PATIENCE_S,
            what="the coordinator at every gateway",
        )
    return others[0]


def test_an_end_for_the_former_coordinator_is_refused(whole: ReplicatedCluster) -> None:
    """It lay at the client's end while that node was cut off, say."""
    payer = Payer("payer-moved", make_replicated_topic(whole.bootstrap, "accounts", partitions=1))
    former = coordinator_of(whole, payer)
    with ExitStack() as undo:
        old = undo.enter_context(connect(whole, former, gateway=1))
        payer.initialize(old)
        payer.begin(old)
        new = undo.enter_context(connect(whole, move_coordinator(whole), gateway=1))
        payer.end(new)
        payer.begin(new)
        assert old.ask(payer.commit, 3).error_code == ErrorCode.NOT_COORDINATOR
        assert payer.state(new) == "Ongoing"
        payer.end(new)


@pytest.mark.forms("split", "grpcio")
def test_an_end_that_waited_in_a_gateway_that_stood_still_is_not_read(
    whole: ReplicatedCluster,
) -> None:
    """The coordinator stays where it is, and another gateway has gone on."""
    payer = Payer("payer-paused", make_replicated_topic(whole.bootstrap, "accounts", partitions=1))
    coordinator = coordinator_of(whole, payer)
    with ExitStack() as undo:
        early = undo.enter_context(connect(whole, coordinator, gateway=2))
        other = undo.enter_context(connect(whole, coordinator, gateway=1))
        payer.initialize(early)
        payer.begin(early)
        whole.pause("gateway-2")
        stopped_s = time.monotonic()
        late = undo.enter_context(connect(whole, coordinator, gateway=2))  # The kernel accepts it.
        for connection in (early, late):
            connection.send(payer.commit, 3)
        payer.end(other)
        payer.begin(other)
        time.sleep(max(0.0, stopped_s + STANDSTILL_MS / 1000 + 0.5 - time.monotonic()))
        whole.resume("gateway-2")
        for connection in (early, late):
            connection.wait_for_close()
        assert payer.state(other) == "Ongoing"
        time.sleep(BACKLOG_MS / 1000 + 0.2)
        new = undo.enter_context(connect(whole, coordinator, gateway=2))
        payer.end(new)


@pytest.fixture
def apart(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[ReplicatedCluster, NodeNetwork]]:
    with three.apart(tmp_path, three.in_form(SHAPE, request.param)) as made:
        yield made


@pytest.mark.parametrize("apart", ["combined"], indirect=True)
def test_an_end_that_the_network_held_back_is_not_read(
    apart: tuple[ReplicatedCluster, NodeNetwork],
) -> None:
    """Only this connection is cut, so the coordinator stays where it is."""
    cluster, network = apart
    payer = Payer("payer-cut", make_replicated_topic(cluster.bootstrap, "accounts", partitions=1))
    coordinator = coordinator_of(cluster, payer)
    with ExitStack() as undo:
        old = undo.enter_context(connect(cluster, coordinator, gateway=1))
        payer.initialize(old)
        payer.begin(old)
        time.sleep(DELAYED_ACK_S)
        network.cut_port(coordinator, old.local_port)
        old.send(payer.commit, 3)  # From now on this end repeats it.
        time.sleep(SILENT_S + 1)
        new = undo.enter_context(connect(cluster, coordinator, gateway=1))
        payer.end(new)
        payer.begin(new)
        network.heal()
        old.wait_for_close()
        assert payer.state(new) == "Ongoing"
        payer.end(new)


@pytest.mark.parametrize(
    "apart", ["split", pytest.param("grpcio", marks=pytest.mark.full)], indirect=True
)
def test_an_end_that_the_network_held_back_behind_a_gateway_is_not_sent(
    apart: tuple[ReplicatedCluster, NodeNetwork],
) -> None:
    """Only this gateway is cut off from the coordinator."""
    cluster, network = apart
    payer = Payer("payer-hop", make_replicated_topic(cluster.bootstrap, "accounts", partitions=1))
    coordinator = coordinator_of(cluster, payer)
    with ExitStack() as undo:
        old = undo.enter_context(connect(cluster, coordinator, gateway=2))
        payer.initialize(old)
        payer.begin(old)
        for port in hop_ports(cluster, "gateway-2", coordinator):
            network.cut_port(coordinator, port)
        old.send(payer.commit, 3)  # From now on the gateway's end repeats it.
        time.sleep(SILENT_S + 1)
        new = undo.enter_context(connect(cluster, coordinator, gateway=1))
        payer.end(new)
        payer.begin(new)
        network.heal()
        assert old.receive().error_code in PASSING
        assert payer.state(old) == "Ongoing", "this gateway reaches it again"
        payer.end(old)


def hop_ports(cluster: ReplicatedCluster, gateway: str, node: int) -> list[int]:
    """The ports of a gateway's ends of its connections to a node."""
    found = psutil.Process(cluster.process(gateway).pid).net_connections("tcp")
    host, port = cluster.hosts.address(node), cluster.ports.nodes[node]
    ports = [
        each.laddr.port
        for each in found
        if each.status == psutil.CONN_ESTABLISHED
        and (each.raddr.ip.removeprefix("::ffff:"), each.raddr.port) == (host, port)
    ]
    assert ports, "the gateway has a connection to every node"
    return ports
