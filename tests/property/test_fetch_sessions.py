"""Random changes to partitions: a consumer in a fetch session learns what one without it is told.

Two consumers ask one gateway for the same partitions, by name or by id; the data planes of two nodes
answer from real logs. One consumer names, and is told of, only partitions with news (KIP-227); the
other names all of them each time. Whenever both ask at the same moment, what the first knows by then
has to be what the second is told. Retention is left out: a log start that it moves is told late.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from highwater.hop.append import TransactionalWrite
from highwater.kafka.messages.fetch import FetchResponsePartitionData
from highwater.model.authorization import AllowAll
from highwater.model.ids import NodeId, TopicId
from highwater.model.transactions import AwaitedMarker, TransactionMarker
from highwater.partition.data_plane.markers import MarkerWriter
from highwater.partition.data_plane.replica import PartitionReplica
from tests.support.controller_images import image_of, topic_state
from tests.support.log_batches import make_batch
from tests.unit.gateway.data_plane.session_client import SessionWorld
from tests.unit.partition.data_plane.node import Node
from tests.unit.partition.data_plane.roles import NODE, follow, follower_fetched, image_says

TOPIC = "many"
PLACES = (1, 1, 1, 1, 1, 1, 2, 3)
"""The node of each partition: enough for a fetch set, one alone, and one that cannot be asked."""
PARTITIONS = st.sampled_from([0, 1, 6])
"""Those to which something happens."""
FOLLOWER = 9
WAIT_MS = 500


class Consumer:
    """One connection; with `in_session` it does what Kafka's `FetchSessionHandler` does."""

    def __init__(self, world: GatewayWorld, *, in_session: bool) -> None:
        self.world, self.in_session = world, in_session
        self.connection = world.connection()
        self.session_id = self.epoch = 0
        self.asked: dict[int, int] = {}
        self.known: dict[int, FetchResponsePartitionData] = {}
        """What it was last told of each partition."""
        self.told: dict[int, FetchResponsePartitionData] = {}
        """What its last fetch has told."""
        self.under_way = False
        self.topic_id = world.topic_id

    def ask(self, offsets: dict[int, int], isolation_level: int, max_wait_ms: int = 0) -> None:
        changed, forgotten = offsets, list[int]()
        if self.topic_id != self.world.topic_id and self.world.version >= 13:
            self.session_id = 0
        self.topic_id = self.world.topic_id
        if self.session_id:
            changed = {p: o for p, o in offsets.items() if self.asked.get(p) != o}
            forgotten = [p for p in self.asked if p not in offsets]
        else:
            self.known = {}
            self.epoch = 0 if self.in_session else -1
        self.asked = dict(offsets)
        self.under_way = True
        self.world.use(self.connection)
        self.world.ask(
            self.world.version,
            self.session_id,
            self.epoch,
            changed,
            forget=forgotten,
            topic=TOPIC,
            topic_id=self.topic_id,
            isolation_level=isolation_level,
            max_wait_ms=max_wait_ms,
        )

    @property
    def waits(self) -> bool:
        self.world.run_due()
        return not self.connection[1].sent

    def take(self) -> None:
        """Take the reply, which has come."""
        self.world.use(self.connection)
        response = self.world.response(self.world.version)
        assert response.error_code == 0
        self.under_way = False
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        self.told = {p.partition_index: p for t in response.responses for p in t.partitions}
        self.known |= self.told


class GatewayWorld(SessionWorld):
    """A gateway whose nodes are data planes."""

    def __init__(self, version: int, planes: dict[int, Any]) -> None:
        super().__init__()
        self.version = version
        self.topic_id = b""
        self.links.clear()
        self.links |= planes

    def connection(self) -> tuple[Any, Any]:
        self.connect()
        return self.session, self.wire

    def run_due(self) -> None:
        while self.due:
            self.due.pop(0)()

    def send(self, frame: bytearray) -> None:
        super().send(frame)
        self.run_due()

    def response(self, version: int) -> Any:
        sent, parts = self.wire.sent, []
        for part in sent:
            if type(part) is bytes:
                parts.append(part)
            else:
                parts.append(os.pread(part.fd, part.length, part.position))
                part.release()
        sent[:] = parts
        return super().response(version)


class Sessions(RuleBasedStateMachine):
    """See the module."""

    @initialize(
        version=st.sampled_from([7, 12, 18]),
        count=st.sampled_from([1, 3, 6, 6, 7, 7, 8]),
        reads_on=st.booleans(),
        isolation_level=st.sampled_from([0, 1]),
    )
    def start(self, version: int, count: int, reads_on: bool, isolation_level: int) -> None:
        self.parent = Path(tempfile.mkdtemp())
        self.lives = 0
        self.nodes = {n: Node(self.parent) for n in (1, 2)}
        self.world = GatewayWorld(version, {n: node.plane for n, node in self.nodes.items()})
        self.routed = list(PLACES)
        self.sequences: dict[tuple[TopicId, int], int] = {}
        self.make_topic()
        self.world.authorize(AllowAll(), slots=10)
        self.offsets = dict.fromkeys(range(count), 0)
        self.reads_on = reads_on
        """Whether the consumers go on behind what they have read, or stay."""
        self.isolation_level = isolation_level
        self.mine = Consumer(self.world, in_session=True)
        self.other = Consumer(self.world, in_session=False)

    def teardown(self) -> None:
        if not hasattr(self, "mine"):
            return
        for consumer in (self.mine, self.other):
            consumer.connection[0].connection_closed()
            assert consumer.connection[0].outstanding == 0
        assert self.world.shared.budget.used == 0
        assert not any(node.bugs for node in self.nodes.values())
        for replica in self.replicas():
            replica.log.close(clean=False)
        shutil.rmtree(self.parent)

    def make_topic(self) -> None:
        self.lives += 1
        self.topic = self.world.topic_id = TopicId(b"%016d" % self.lives)
        directory = self.parent / str(self.lives)
        directory.mkdir()
        for partition, place in enumerate(PLACES):
            if place in self.nodes:
                node = self.nodes[place]
                node.directory = directory
                node.add(partition, topic_id=self.topic)
        self.apply()

    def apply(self) -> None:
        state = replace(topic_state(TOPIC, [(n,) for n in self.routed]), topic_id=self.topic)
        self.world.routing.apply(image_of(topics=[state] if self.exists else []))

    @property
    def exists(self) -> bool:
        return any(node.plane.replicas for node in self.nodes.values())

    def replicas(self) -> Iterator[PartitionReplica]:
        for node in self.nodes.values():
            yield from node.plane.replicas.values()

    def node(self, partition: int) -> Node:
        return self.nodes[PLACES[partition]]

    def replica(self, partition: int) -> PartitionReplica:
        return self.node(partition).plane.replicas[self.topic, partition]

    # ---- what happens to partitions ----

    @precondition(lambda self: self.exists)
    @rule(partition=PARTITIONS, batches=st.integers(1, 2))
    def append(self, partition: int, batches: int) -> None:
        self.node(partition).append(
            *[make_batch() for _ in range(batches)],
            partition=partition,
            topic_id=self.topic,
            epoch=self.replica(partition).leader_epoch,
        )

    @precondition(lambda self: self.exists)
    @rule(partition=PARTITIONS)
    def append_in_a_transaction(self, partition: int) -> None:
        node, replica = self.node(partition), self.replica(partition)
        sequence = self.sequences.get((self.topic, partition), 0)
        batch = make_batch(
            timestamps=(node.clock.now_ms,),
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        spec: dict[str, Any] = {"epoch": replica.leader_epoch, "partition": partition}
        group, sink = node.group(batch, topic_id=self.topic, **spec)
        group.transaction = TransactionalWrite("payments", adds_partition=True)
        node.plane.append([group])
        if sink.codes == {0: 0}:
            self.sequences[self.topic, partition] = sequence + 1

    @precondition(lambda self: self.exists)
    @rule(partition=PARTITIONS, commit=st.booleans())
    def end_transaction(self, partition: int, commit: bool) -> None:
        marker = TransactionMarker(
            producer_id=7,
            producer_epoch=0,
            committed=commit,
            coordinator_epoch=0,
            transaction_version=0,
        )
        epoch = self.replica(partition).leader_epoch
        writer = MarkerWriter(self.node(partition).plane, self.topic)
        writer.write_markers(partition, epoch, [AwaitedMarker(marker, lambda _code: None)])

    @precondition(lambda self: self.exists)
    @rule(partition=PARTITIONS, joins=st.booleans())
    def isr_changes(self, partition: int, joins: bool) -> None:
        replica = self.replica(partition)
        if replica.leading:
            isr = (NODE, FOLLOWER) if joins else (NODE,)
            epoch = replica.leader_epoch
            image_says(replica, leader=NODE, epoch=epoch, replicas=(NODE, FOLLOWER), isr=isr)

    @precondition(lambda self: self.exists)
    @rule(partition=PARTITIONS, behind=st.integers(0, 2))
    def follower_fetches(self, partition: int, behind: int) -> None:
        replica = self.replica(partition)
        if replica.leading and FOLLOWER in replica.core.followers:
            offset = max(replica.high_watermark, replica.log.log_end_offset - behind)
            follower_fetched(replica, FOLLOWER, offset)

    @precondition(lambda self: self.exists)
    @rule(partition=PARTITIONS, offset=st.integers(0, 6))
    def delete_records(self, partition: int, offset: int) -> None:
        self.replica(partition).delete_records(offset)

    @precondition(lambda self: self.exists)
    @rule(partition=PARTITIONS)
    def leader_goes_or_comes(self, partition: int) -> None:
        replica = self.replica(partition)
        epoch = replica.leader_epoch + 1
        if replica.leading:
            follow(replica, FOLLOWER, epoch)
        else:
            image_says(replica, leader=NODE, epoch=epoch)

    @rule(partition=PARTITIONS)
    def route_goes_or_comes(self, partition: int) -> None:
        """The gateway hears of another leader, rightly or not."""
        here = PLACES[partition]
        self.routed[partition] = here if self.routed[partition] != here else NodeId(3)
        self.apply()

    @rule()
    def topic_goes_or_comes(self) -> None:
        if not self.exists:
            self.make_topic()
            return
        for node in self.nodes.values():
            replicas = list(node.plane.replicas.values())
            node.plane.replicas.clear()
            for replica in replicas:
                replica.retire()
                replica.log.close(clean=False)
        self.apply()

    # ---- what consumers do ----

    @rule(partition=st.integers(0, len(PLACES)), offset=st.integers(0, 6))
    def seek(self, partition: int, offset: int) -> None:
        self.offsets[partition] = offset

    @precondition(lambda self: len(self.offsets) > 1)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        del self.offsets[data.draw(st.sampled_from(sorted(self.offsets)))]

    @rule(isolation_level=st.sampled_from([0, 1]))
    def isolate(self, isolation_level: int) -> None:
        self.isolation_level = isolation_level

    @rule(reads_on=st.booleans())
    def stay_or_read_on(self, reads_on: bool) -> None:
        self.reads_on = reads_on

    @rule()
    def reconnect(self) -> None:
        """The client begins a new session, as its fetch may be lost."""
        self.mine.connection[0].connection_closed()
        self.mine = Consumer(self.world, in_session=True)

    @precondition(lambda self: not self.mine.under_way)
    @rule()
    def wait(self) -> None:
        """Start a fetch that may wait while other things happen."""
        self.mine.ask(self.offsets, self.isolation_level, WAIT_MS)

    @precondition(lambda self: self.mine.under_way)
    @rule()
    def turn(self) -> None:
        for node in self.nodes.values():
            node.turn()

    @rule()
    def finish(self) -> None:
        """End the fetch that may wait."""
        if not self.mine.under_way:
            return
        self.turn()
        for _ in range(3):
            if self.mine.waits:
                for node in self.nodes.values():
                    due, node.timers = node.timers, []
                    for timer in due:
                        if not timer.cancelled:
                            timer.callback()
        assert not self.mine.waits
        self.mine.take()

    @invariant()
    def both_know_the_same(self) -> None:
        if not hasattr(self, "mine") or self.mine.under_way:
            return
        for consumer in (self.mine, self.other):
            consumer.ask(self.offsets, self.isolation_level)
            assert not consumer.waits
            consumer.take()
        for partition in self.offsets:
            found = self.other.told[partition]
            if partition in self.mine.told:
                assert self.mine.told[partition] == found
            else:
                known = self.mine.known[partition]
                assert (found.error_code, bytes(found.records or b"")) == (0, b"")
                assert offsets_of(known) == offsets_of(found)
            if self.reads_on and not found.error_code:
                end = found.last_stable_offset if self.isolation_level else found.high_watermark
                self.offsets[partition] = max(end, 0)


def offsets_of(data: FetchResponsePartitionData) -> tuple[int, int, int]:
    return data.high_watermark, data.last_stable_offset, data.log_start_offset


TestSessions = Sessions.TestCase
TestSessions.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
