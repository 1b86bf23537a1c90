"""Random histories of one partition of `__transaction_state` that moves between nodes.

Two producers share a transactional id, as clients of transaction.version 2. Leaders change, learn of
it late, crash and come back; answers wait or get lost; markers arrive late, also those of
coordinators that are no more. Then:

- no two producers get the same id and epoch, and epochs in the log never go back;
- a transaction is decided once: all its markers say what the producer was told;
- no coordinator sends a marker in another epoch than its own, and no partition takes one of an
  older coordinator after one of a newer;
- when all is whole again, every partition of a transaction that was ended has its marker.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import iter_batches
from highwater.kafka.records.record import read_records
from highwater.model.ids import InstanceId, NodeId, TopicId
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.transactions.core import invariants
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.core.state import PREPARED, check_transition
from highwater.partition.transactions.marker_sender import Destination
from highwater.partition.transactions.records import decode
from tests.property.test_group_failover import Complaints, LoopClock
from tests.support.stepped_loop import SteppedLoop
from tests.unit.partition.coordinator.memory_log import MemorySnapshots
from tests.unit.partition.coordinator.replicated_log import ReplicatedLog
from tests.unit.partition.transactions.node import Node
from tests.unit.partition.transactions.requests import (
    batch,
    batch_codes,
    end,
    init,
    one,
    producer_of,
)

pytestmark = pytest.mark.timeout(300)

NODES = st.integers(0, 2)
CLIENTS = st.integers(0, 1)
PARTITIONS = st.integers(0, 2)
TURNS = 40
TOPIC_ID = TopicId(b"t" * 16)
TIMEOUT_MS = 5_000
RETRIED = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class World:
    """The partitions that take markers, and the requests on their way to them."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, object]] = []
        """(partition, marker)"""
        self.coordinators: dict[tuple[int, int], int] = {}
        """{(partition, producer id): the newest coordinator epoch}"""
        self.on_the_way: list[tuple[Way, list[object], object]] = []

    def deliver(self, number: int, *, answered: bool) -> None:
        way, markers, done = self.on_the_way.pop(number)
        codes = [self._take(to.partition, marker) for marker, where in markers for to in where]
        if way.alive:
            done(codes if answered else None)

    def _take(self, partition: int, marker: object) -> int:
        key = (partition, marker.producer_id)
        if marker.coordinator_epoch < self.coordinators.get(key, -1):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.coordinators[key] = marker.coordinator_epoch
        self.taken.append((partition, marker))
        return 0


class Way:
    """A `MarkerPort`: one process's way to the partitions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.alive = True
        self.node: Node | None = None

    def find(self, _instance: InstanceId, partition: TopicPartition) -> Destination | None:
        return Destination(NodeId(1 + partition.partition % 2), TOPIC_ID, partition.partition, 1)

    def exists(self, _instance: InstanceId, _partition: TopicPartition) -> bool:
        return True

    def send(self, _node: NodeId, markers: list[object], done: object) -> None:
        host = self.node.coordinator._hosts.by_partition[0]
        assert {marker.coordinator_epoch for marker, _ in markers} == {host.leader_epoch}
        self.world.on_the_way.append((self, list(markers), done))


class Client:
    """A producer; it has at most one request under way, and decides each transaction once."""

    def __init__(self) -> None:
        self.producer: tuple[int, int] | None = None
        self.partitions: set[int] = set()
        """Those that were acknowledged for the open transaction."""
        self.decision: bool | None = None
        self.sent: tuple[str, object, int, object] | None = None
        """(what, call, node, partition)"""


class TransactionLives(RuleBasedStateMachine):
    @initialize(min_isr=st.integers(1, 2), snapshot_bytes=st.sampled_from([150, 1 << 20]))
    def start(self, min_isr, snapshot_bytes):
        self.loop = SteppedLoop()
        self.complaints = Complaints()
        self.settings = HostSettings(snapshot_bytes=snapshot_bytes)
        self.log = ReplicatedLog(3, min_isr)
        self.disks = [MemorySnapshots() for _ in range(3)]
        self.ids = itertools.count(1000)
        self.world = World()
        self.nodes = [self._process(node) for node in range(3)]
        self.clients = [Client(), Client()]
        self.given: set[tuple[int, int]] = set()
        self.told: dict[tuple[int, int], tuple[bool, frozenset[int]]] = {}
        """{(producer id, epoch of the marker): (commit, partitions)} of acknowledged ends."""
        self._elect(0)
        self._settle(True)

    def _process(self, node: int) -> Node:
        return self.loop.call(self._new_node, node)

    def _new_node(self, node: int) -> Node:
        way = Way(self.world)
        way.node = Node(
            self.log.nodes[node],
            self.disks[node],
            way,
            ids=self.ids,
            config=TransactionConfig(abort_check_ms=1_000),
            settings=self.settings,
            clock=LoopClock(self.loop),
            logger=self.complaints,
        )
        return way.node

    def _elect(self, node: int) -> None:
        def elect() -> None:
            self.nodes[node].coordinator.become_leader(0, self.log.elect(node))

        self.loop.call(elect)

    # -- producers -------------------------------------------------------------------------------

    @rule(client=CLIENTS, calm=st.booleans())
    def initialize_producer(self, client, calm):
        self._ask(client, "init", init(timeout_ms=TIMEOUT_MS), None)
        self._settle(calm)

    @rule(client=CLIENTS, partition=PARTITIONS, calm=st.booleans())
    def add(self, client, partition, calm):
        c = self.clients[client]
        if c.producer is None:
            self.initialize_producer(client, calm)
        elif c.decision is None:
            self._ask(client, "add", batch(one(c.producer, partition)), partition)
            self._settle(calm)

    @rule(client=CLIENTS, commit=st.booleans(), calm=st.booleans())
    def end(self, client, commit, calm):
        c = self.clients[client]
        if c.producer is not None and c.sent is None:
            c.decision = commit if c.decision is None else c.decision
            self._ask(client, "end", end(c.producer, commit=c.decision), None)
            self._settle(calm)

    @rule(
        client=CLIENTS,
        partitions=st.sets(PARTITIONS, min_size=1),
        commit=st.booleans(),
        calm=st.booleans(),
    )
    def transaction(self, client, partitions, commit, calm):
        """A whole one, which may leave its end and its markers to what comes next."""
        self.deliver_all()
        if self.clients[client].producer is None:
            self.initialize_producer(client, True)
            self.deliver_all()
        for partition in partitions:
            self.add(client, partition, True)
        self.end(client, commit, calm)

    def _settle(self, calm: bool) -> None:
        """All that nodes can do without the markers' arrival, if it is calm."""
        for _ in range(2 * calm):
            for node in range(3):
                self.learn(node)
            self.loop.turn(TURNS)
            self._replicate_all()
        self.what_was_told_holds()

    def _ask(self, client: int, what: str, message: object, partition: int | None) -> None:
        c, node = self.clients[client], self.log.leader
        if c.sent is None and self.log.nodes[node].alive:
            sent = self.loop.call(lambda: self.nodes[node].submit(message, 5))
            c.sent = (what, sent, node, partition)

    # -- nodes -----------------------------------------------------------------------------------

    @rule(node=NODES)
    def elect(self, node):
        if self.log.may_lead(node):
            self._elect(node)

    @rule(node=NODES)
    def learn(self, node):
        if self.log.nodes[node].alive:
            self.loop.call(self._learn, node)

    def _learn(self, node: int) -> None:
        if self.log.learn(node):
            self.nodes[node].coordinator.resign(0)

    @rule(node=NODES, batches=st.integers(1, 4))
    def replicate(self, node, batches):
        for _ in range(batches):
            if self.log.may_fetch(node):
                self.loop.call(self.log.fetch, node)

    @rule(node=NODES)
    def crash(self, node):
        if not self.log.nodes[node].alive:
            return
        self.what_was_told_holds()
        self.log.crash(node)
        self.nodes[node].markers.alive = False
        for client in self.clients:
            if client.sent is not None and client.sent[2] == node:
                client.sent[1].call.cancelled = True  # Its connection is gone.
                client.sent = None
        self.loop.call(self.nodes[node].coordinator.resign, 0)

    @rule(node=NODES)
    def restart(self, node):
        replica = self.log.nodes[node]
        if not replica.alive:
            replica.alive = True
            self.nodes[node] = self._process(node)

    # -- markers and time ------------------------------------------------------------------------

    @rule(number=st.integers(0, 5), answered=st.booleans())
    def deliver(self, number, answered):
        if number < len(self.world.on_the_way):
            self.loop.call(lambda: self.world.deliver(number, answered=answered))

    @rule()
    def deliver_all(self):
        self.loop.turn(TURNS)
        while self.world.on_the_way:
            self.deliver(0, answered=True)
        self._settle(True)

    @rule()
    def all_turns(self):
        self.loop.turn(TURNS)

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0]))
    def wait(self, seconds):
        self.loop.now += seconds
        self.loop.turn(TURNS)

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def what_was_told_holds(self):
        if not hasattr(self, "log"):
            return
        assert self.complaints.events == []
        for client in self.clients:
            if client.sent is not None and client.sent[1].done:
                self._answered(client)
        for node in self.nodes:
            for shard in node.coordinator._hosts.shards():
                invariants.check(shard)
        decided: dict[tuple[int, int], bool] = {}
        for _, marker in self.world.taken:
            key = (marker.producer_id, marker.producer_epoch)
            assert decided.setdefault(key, marker.committed) == marker.committed, key
            if key in self.told:
                assert self.told[key][0] == marker.committed, key

    def _answered(self, client: Client) -> None:
        what, sent, _, partition = client.sent
        client.sent = None
        if sent.answers[0][0]:
            assert sent.code in RETRIED
            return
        response = sent.response
        error = batch_codes(response)["tx"][partition] if what == "add" else response.error_code
        if error in RETRIED:
            return
        if error:
            assert error in {
                ErrorCode.PRODUCER_FENCED,
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                ErrorCode.INVALID_TXN_STATE,
            }
            client.producer = client.decision = None
            client.partitions = set()
        elif what == "add":
            client.partitions.add(partition)
        else:
            self._began(client, what, producer_of(response))

    def _began(self, client: Client, what: str, producer: tuple[int, int]) -> None:
        """The client goes on with what it was given."""
        if what == "end":
            self.told[producer] = (client.decision, frozenset(client.partitions))
        else:
            assert producer not in self.given, "two producers are one"
        self.given.add(producer)
        client.producer, client.decision, client.partitions = producer, None, set()

    # -- the end ---------------------------------------------------------------------------------

    def teardown(self):
        if not hasattr(self, "log"):
            return
        try:
            self._heal()
        finally:
            for node in self.nodes:
                self.loop.call(node.coordinator.resign, 0)
            self.loop.turn(TURNS)
            self.loop.close()

    def _heal(self) -> None:
        for node in range(3):
            self.restart(node)
        self._elect(min(self.log.isr))
        for node in range(3):
            self.learn(node)
        for _ in range(8):
            self.wait(2.0)
            self._replicate_all()
            while self.world.on_the_way:
                self.deliver(0, answered=True)
        self.loop.turn(TURNS)
        self.what_was_told_holds()
        self._check_log()
        (shard,) = self.nodes[self.log.leader].coordinator._hosts.shards()
        assert all(image.state not in PREPARED for image in shard.images.values())
        assert self.nodes[self.log.leader].coordinator.sender.transactions == 0
        for key, (committed, partitions) in self.told.items():
            has = {
                partition
                for partition, marker in self.world.taken
                if (marker.producer_id, marker.producer_epoch) == key
                and marker.committed == committed
            }
            assert partitions <= has, key

    def _replicate_all(self) -> None:
        longest = max(len(replica.batches) for replica in self.log.nodes)
        for node in range(3):
            self.replicate(node, longest + 1)

    def _check_log(self) -> None:
        """One after another, the records are a history that Kafka's table allows."""
        last = None
        for data in self.log.nodes[self.log.leader].batches:
            for view in iter_batches(data):
                for record in read_records(view, 1 << 20):
                    image = decode(record.key, record.value).value
                    assert image is not None
                    if last is not None:
                        check_transition(last.state, image.state)
                        if last.producer_id == image.producer_id:
                            assert last.producer_epoch <= image.producer_epoch
                    last = image


TestTransactionLives = TransactionLives.TestCase
TestTransactionLives.settings = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
