"""No replica is left that surely has all records: clean and unclean elections, small ISRs."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field

from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

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
from tests.support.process import wait_until

_UNCLEAN = "unclean_election"
"""The event of a controller's log line."""
_ASKED_S_MAX = 20.0


@dataclass
class LastReplica(Fault):
    """The ISR shrinks to a leader that goes on alone (min.insync.replicas 1), and then dies.

    A replica that lacks its last records comes back first. It may lead only if the topic allows
    unclean elections, or an operator asks for one; the records are then lost, and the new epoch and
    the controller's log show it.
    """

    unclean: bool = False
    """Whether the topic allows it."""
    asked: bool = False
    topic_configs: dict[str, str] = field(init=False)

    pause_s_max = None

    def __post_init__(self) -> None:
        self.topic_configs = {
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": str(self.unclean).lower(),
        }

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        # One node must lead all partitions in the end, so end the others first.
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
        if not self.unclean:
            time.sleep(8)
            assert all(p.leader < 0 for p in scene.view().values()), "it lacks records"
        if self.asked:
            _ask(scene)
        if self.unclean or self.asked:
            self._wait_unclean(scene)

    def _wait_unclean(self, scene: Scene) -> None:
        """Waits until the replica that is back leads everything, and looks who tells of it."""
        leader = self._others[0]
        now = scene.wait(
            lambda parts: all(p.leader == leader for p in parts.values()), 30, "an unclean leader"
        )
        after = {p.partition: p.leader_epoch for p in now.values()}
        assert all(after[p] > self._epochs[p] for p in after), "the epoch tells"
        expected = {p: (leader, epoch) for p, epoch in after.items()}
        with contextlib.suppress(TimeoutError):  # The difference says more.
            wait_until(lambda: _told_unclean(scene) == expected, timeout_s=5, what="a line")
        assert _told_unclean(scene) == expected, "so does the controller"

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
    """The topic is available at once, but the last replica's own records are lost."""

    unclean: bool = True

    id = "F29-on"
    title = "the last replica dies, unclean elections on"
    allowed = frozenset({LOST, MOVED, REUSED, VANISHED, BACK, GAP, FOREIGN_RECORD, COMMIT_LOST})
    failures_allowed = True
    producer_survives = False

    complaints = (_UNCLEAN,)

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
        assert any("truncation" in error for error in errors), "consumers report it (KIP-320)"
        lost = [v for v in violations(scene.workload.history) if v.kind == LOST]
        assert lost, "or this has shown nothing"


@dataclass
class AskedElection(UncleanElection):
    """The topic forbids unclean elections, and an operator asks for one."""

    unclean: bool = False
    asked: bool = True

    id = "F29-asked"
    title = "the last replica dies, unclean elections off, and an operator asks for one"


def _ask(scene: Scene) -> None:
    """Asks for unclean elections in the load's topic. Raises what the cluster says of each."""
    admin = AdminClient({"bootstrap.servers": scene.cluster.bootstrap})
    wanted = [TopicPartition(scene.topic, number) for number in scene.view()]
    answer = admin.elect_leaders(ElectionType.UNCLEAN, wanted)
    refused = {p.partition: error for p, error in answer.result(_ASKED_S_MAX).items() if error}
    assert not refused, refused
    scene.note(f"an operator asked for {len(wanted)} unclean elections")


def _told_unclean(scene: Scene) -> dict[int, tuple[int, int]]:
    """By partition of the load's topic, leader and epoch in the controllers' log lines."""
    lines = [
        json.loads(line)
        for name in scene.cluster.names
        if name.startswith("controller")
        for line in scene.cluster.process(name).lines_with(f'"{_UNCLEAN}"')
    ]
    assert all(line["level"] == "warning" for line in lines), lines
    return {
        line["partition"]: (line["leader"], line["leader_epoch"])
        for line in lines
        if line["topic"] == scene.topic
    }


class TooFewInSync(Fault):
    """Two of three nodes die: with min.insync.replicas 2 nothing is acknowledged until one is back.

    The last replica keeps its records; producers wait, and no record is lost.
    """

    id = "F11-killed"
    title = "fewer replicas than min.insync.replicas"
    pause_s_max = None

    def inject(self, scene: Scene) -> None:
        self._dead = scene.others(scene.leader())
        scene.cluster.kill_nodes(self._dead)
        killed_s = time.monotonic()
        scene.wait(
            lambda parts: all(len(p.isr - p.offline) == 1 for p in parts.values()),
            30,
            "one replica in sync",
        )
        time.sleep(5)
        # The answers to earlier records may have been lost with their leader after the commit; when
        # they are sent again, they are found in the log and acknowledged.
        history = scene.workload.history
        alone = {
            partition: [n for n in list(numbers) if history.sent_s[partition][n] > killed_s]
            for partition, numbers in history.acknowledged.items()
        }
        assert not any(alone.values()), f"acknowledged by one alone: {alone}"
        scene.note("no new record acknowledged for 5 s with one replica in sync")

    def heal(self, scene: Scene) -> None:
        for node in self._dead:
            scene.cluster.restart_node(node)
