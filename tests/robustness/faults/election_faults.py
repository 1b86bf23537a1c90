"""When nobody is left who is known to have everything: clean and unclean elections, small ISRs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from confluent_kafka import Producer

from tests.robustness.faults.checker import (
    BACK,
    COMMIT_LOST,
    FOREIGN_RECORD,
    GAP,
    LOST,
    MOVED,
    REUSED,
    VANISHED,
    violations,
)
from tests.robustness.faults.fault import Fault, Scene
from tests.robustness.faults.workload import READER


@dataclass
class LastReplica(Fault):
    """The ISR shrinks to a leader that goes on alone (min.insync.replicas 1), and then dies.

    A replica that lacks its last records comes back first. Only where the topic allows an unclean
    election may it lead; the records are then gone, which the epoch tells.
    """

    unclean: bool = False
    topic_configs: dict[str, str] = field(init=False)

    pause_s_max = None

    def __post_init__(self) -> None:
        self.topic_configs = {
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": str(self.unclean).lower(),
        }

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        # One node is to lead everything in the end, so the others go first.
        scene.victim = scene.leader()
        self._others = scene.others(scene.victim)
        cluster.kill_nodes(self._others)
        scene.wait(
            lambda parts: all(p.isr == {scene.victim} for p in parts.values()), 30, "an ISR of one"
        )
        scene.progress(count=100)
        self._epochs = {p.partition: p.leader_epoch for p in scene.view().values()}
        cluster.kill_node(scene.victim)
        scene.wait(lambda parts: all(p.leader < 0 for p in parts.values()), 30, "no leader")
        cluster.restart_node(self._others[0])
        scene.note(f"node {scene.victim} had written alone; node {self._others[0]} is back")
        if self.unclean:
            scene.wait(
                lambda parts: all(p.leader == self._others[0] for p in parts.values()),
                30,
                "an unclean leader",
            )
            after = {p.partition: p.leader_epoch for p in scene.view().values()}
            assert all(after[p] > self._epochs[p] for p in after), "the epoch tells"
        else:
            time.sleep(8)
            assert all(p.leader < 0 for p in scene.view().values()), "it lacks records"

    def heal(self, scene: Scene) -> None:
        scene.cluster.restart_node(scene.victim)
        scene.cluster.restart_node(self._others[1])


@dataclass
class CleanElection(LastReplica):
    """Unavailable until the one that has everything is back; then nothing is lost."""

    id = "F29-off"
    title = "the last replica dies, unclean elections off"


@dataclass
class UncleanElection(LastReplica):
    """Available again at once, at the price of what only the last one had."""

    unclean: bool = True

    id = "F29-on"
    title = "the last replica dies, unclean elections on"
    allowed = frozenset({LOST, MOVED, REUSED, VANISHED, BACK, GAP, FOREIGN_RECORD, COMMIT_LOST})
    failures_allowed = True
    producer_survives = False

    def heal(self, scene: Scene) -> None:
        super().heal(scene)
        scene.wait_whole()
        producer = Producer(
            {
                "bootstrap.servers": scene.cluster.bootstraps,
                "enable.idempotence": True,
                "delivery.timeout.ms": 30_000,
            }
        )
        for partition in scene.view():
            producer.produce(scene.topic, b"from another producer", partition=partition)
        assert producer.flush(40) == 0

    def check(self, scene: Scene) -> None:
        errors = scene.workload.history.errors[READER]
        assert any("truncation" in error for error in errors), "consumers hear of it (KIP-320)"
        lost = [v for v in violations(scene.workload.history) if v.kind == LOST]
        assert lost, "or this has shown nothing"


class TooFewInSync(Fault):
    """Two of three nodes die: with min.insync.replicas 2 nothing is acknowledged until one is back.

    What the last one had stays; producers wait, and lose nothing.
    """

    id = "F11-killed"
    title = "fewer replicas than min.insync.replicas"
    pause_s_max = None

    def inject(self, scene: Scene) -> None:
        self._dead = scene.others(scene.leader())
        scene.cluster.kill_nodes(self._dead)
        scene.wait(
            lambda parts: all(len(p.isr - p.offline) == 1 for p in parts.values()),
            30,
            "one replica in sync",
        )
        before = scene.workload.history.acknowledged_count()
        time.sleep(5)
        assert scene.workload.history.acknowledged_count() == before, "acknowledged by one alone"
        scene.note("nothing acknowledged for 5 s with one replica in sync")

    def heal(self, scene: Scene) -> None:
        for node in self._dead:
            scene.cluster.restart_node(node)
