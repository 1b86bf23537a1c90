"""A cluster of several partitions with transactions: one world each, on one clock.

Two topics with records, and those of the two coordinators, whose replicas fail and fail over as all
others do. A node's partitions are processes of their own, each on its own network: what fails together on a
real node may fail apart here, and does so more often than not; a host that dies takes all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicId,
)
from tests.sim.bug import NO_BUG, Bug
from tests.sim.event_queue import EventQueue
from tests.sim.log_producers import LogProducers
from tests.sim.node import NodeProcess
from tests.sim.observer import ViolationError
from tests.sim.options import Options
from tests.sim.site import ProcessPart, Site
from tests.sim.txn.batches import Batches
from tests.sim.txn.clients import Application, CommittedConsumer
from tests.sim.txn.coordinators import Coordinators
from tests.sim.txn.faults import ClusterFaults
from tests.sim.txn.log_files import TransactionalProducers
from tests.sim.txn.loop import SimLoop
from tests.sim.txn.observer import TransactionObserver
from tests.sim.txn.offsets import OffsetFetcher
from tests.sim.txn.parts import Node
from tests.sim.world import EVENTS, HEAL_CHECK_EVERY, World

RECORD_TOPICS = ("a", "b")
INTERNAL_TOPICS = (TRANSACTION_STATE_TOPIC, GROUP_METADATA_TOPIC)
EVENTS_SHARE = 5
"""Events of a cluster for one of a single partition."""
HEAL_MS_MAX = 8_000
"""For each half: first all that has failed comes back, then all transactions end, some of them by
their timeout."""
CLIENTS_FROM = -1_000


class PartitionSite(Site):
    """One partition's."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def part(self, process: NodeProcess) -> ProcessPart:
        node = Node(process, self._cluster, self._name)
        self._cluster.loops.append(node.loop)
        return node

    def producers(self, world: World) -> LogProducers:
        cluster = self._cluster
        return TransactionalProducers(
            cluster.batches,
            cluster.bug.producer_states,
            lambda: world.now,
            cluster.options.producer_expiration_ms,
        )

    def checked(self, world: World) -> None:
        self._cluster.observer.follow(self._name, world)


class Cluster:
    """Built for one seed, run once."""

    def __init__(
        self, options: Options, bug: Bug = NO_BUG, trace: Callable[[str], None] | None = None
    ) -> None:
        self.options = options
        self.bug = bug
        self.rng = random.Random(options.seed * 92_821 + 29)
        self.queue = EventQueue()
        self.batches = Batches()
        self.record_topics = RECORD_TOPICS
        self.marked_topics = (*RECORD_TOPICS, GROUP_METADATA_TOPIC)
        """Those that transactions write to."""
        self.state_topic = TRANSACTION_STATE_TOPIC
        self.coordinators = Coordinators(bug)
        self.observer = TransactionObserver(self)
        self.worlds: dict[str, World] = {}
        self.topics: dict[str, TopicState] = {}
        for number, name in enumerate((*RECORD_TOPICS, *INTERNAL_TOPICS)):
            self.worlds[name] = World(
                replace(options, seed=options.seed * 8 + number),
                bug,
                None if trace is None else partial(_say, trace, name),
                site=PartitionSite(self, name),
                queue=self.queue,
            )
            self.topics[name] = TopicState(
                topic_id=TopicId(bytes([number + 1]) * 16),
                instance=DEFAULT_INSTANCE,
                name=name,
                partitions=(self.worlds[name].controller.partition,),
                internal=name in INTERNAL_TOPICS,
            )
        self.worlds_by_id = {self.topics[name].topic_id: w for name, w in self.worlds.items()}
        self.home = self.worlds[TRANSACTION_STATE_TOPIC]
        """Where what concerns all partitions goes on."""
        self.faults = ClusterFaults(self)
        self.loops: list[SimLoop] = []
        """Of all processes that there have been: so no garbage collection has a part in a seed."""
        self.silent_until_ms = 0
        """Clients begin no transaction before."""
        self.quiet = False
        """No client begins a transaction any more."""
        self._clients = CLIENTS_FROM
        self.applications = [
            Application(self, f"app-{n}", old=n < options.old_clients)
            for n in range(options.applications)
        ]
        self.consumers = [CommittedConsumer(self, name) for name in RECORD_TOPICS]
        self.offset_fetchers = [OffsetFetcher(self, one.name) for one in self.applications]

    # ---- for the parts ----

    def new_client(self) -> int:
        """An endpoint's number."""
        self._clients -= 1
        return self._clients

    def world_of(self, topic_id: bytes) -> World:
        """The partition of a topic."""
        return self.worlds_by_id[TopicId(topic_id)]

    def image(self) -> ClusterImage:
        """As far as the partitions' gateways know it by now."""
        topics = {}
        for name, world in self.worlds.items():
            image = world.gateways.first.image
            if image is not None:
                topic = self.topics[name]
                topics[topic.topic_id] = replace(topic, partitions=(image.partition,))
        ids = {(topic.instance, topic.name): topic_id for topic_id, topic in topics.items()}
        return ClusterImage(revision=1, cluster_id="sim", topics=topics, topic_ids=ids)

    # ---- running ----

    @property
    def events(self) -> int:
        return self.queue.events

    def run(self, events: int = EVENTS) -> None:
        """As `World.run`; R22 at the end."""
        try:
            self._run(events)
        finally:
            for loop in self.loops:
                loop.drop()

    def _run(self, events: int) -> None:
        for world in self.worlds.values():
            world.begin()
        for number, application in enumerate(self.applications):
            self.home.after(300 + 10 * number, application.begin)
        for consumer in self.consumers:
            consumer.world.after(300, consumer.poll)
        for fetcher in self.offset_fetchers:
            fetcher.world.after(300, fetcher.poll)
        self.faults.begin()
        while self.queue.events < EVENTS_SHARE * events:
            self.queue.step()
        self.faults.active = False
        for world in self.worlds.values():
            world.end_faults()
        goals = [one.committed + 1 for one in self.applications]
        self._until(lambda: self._not_healed(goals), "R16: not healed")
        self.quiet = True
        self._until(self.observer.not_at_rest, "R22: not at rest")
        self.observer.ended()

    def _until(self, missing: Callable[[], str], what: str) -> None:
        deadline_ms = self.queue.now + HEAL_MS_MAX
        why = "nothing was tried"
        while self.queue.now < deadline_ms:
            for _ in range(HEAL_CHECK_EVERY):
                self.queue.step()
            why = missing()
            if not why:
                return
        raise ViolationError(f"{what} within {HEAL_MS_MAX} ms: {why}")

    def _not_healed(self, goals: list[int]) -> str:
        for name, world in self.worlds.items():
            if missing := world.missing([], 0):
                return f"{name}: {missing}"
        for application, goal in zip(self.applications, goals, strict=True):
            if application.committed < goal:
                return f"{application.name} commits nothing"
        return ""

    # ---- for reports ----

    def summary(self) -> tuple[int, int, int, int]:
        """As `World.summary`, over all partitions."""
        parts = [world.summary() for world in self.worlds.values()]
        _, committed, epochs, losses = (sum(column) for column in zip(*parts, strict=True))
        return self.queue.events, committed, epochs, losses


def _say(trace: Callable[[str], None], name: str, line: str) -> None:
    trace(f"{name:20} {line}")
