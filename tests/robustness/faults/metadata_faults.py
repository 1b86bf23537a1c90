"""Faults of the metadata store: members of etcd die, hang, or lose data."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from tests.robustness.faults.fault import FAILOVER_S_MAX, SESSION_S, Fault, Scene
from tests.support.cluster_view import Partitions, is_whole, view, wait_for_view
from tests.support.etcd import EtcdMemberProcess
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.wire import ConnectionEnded, RawConnection

UNTOUCHED_S_MAX = 2.0
"""Produce and Fetch do not need the metadata store; the pause is that of a busy machine."""

ELECTION_S_MAX = 4.0
"""From the loss of etcd's leader to the next election of a partition's: etcd elects first."""

_PREFERRED = 0
_ELECT_LEADERS_VERSION = 1
_READ_AFRESH = "election_history_compacted"
"""The log line of a controller whose watch was too old."""
_REFUSAL = "refuses_to_lead"
"""The log line of a controller whose store went back."""


class KillEtcdLeader(Fault):
    """The leader of etcd dies: produce goes on, and the next election takes only seconds."""

    id = "F13"
    title = "kill -9 of etcd's leader"
    pause_s_max = UNTOUCHED_S_MAX
    # Nobody else may hold the election that the fault asks for.
    shape = Shape(settings={"controller": {"leader_imbalance_check_interval_ms": "0"}})

    def inject(self, scene: Scene) -> None:
        election = _ElectionToCome(scene)
        self._member = scene.cluster.etcd.leader()
        scene.begun_s = begun = time.monotonic()
        self.lose(self._member)
        took_s = election.hold() - begun
        other = _wait_for_leader(scene, self._member)
        scene.note(f"without {self._member.name} an election took {took_s:.2f} s")
        assert other is not self._member
        assert took_s <= ELECTION_S_MAX, f"an election took {took_s:.2f} s"
        scene.progress()

    def lose(self, member: EtcdMemberProcess) -> None:
        member.kill()

    def heal(self, scene: Scene) -> None:
        self._member.start()
        scene.cluster.etcd.wait_healthy()


class PauseEtcdLeader(KillEtcdLeader):
    """The leader of etcd hangs, and its connections stay open."""

    id = "F13-pause"
    title = "SIGSTOP of etcd's leader"

    def lose(self, member: EtcdMemberProcess) -> None:
        member.pause()

    def heal(self, scene: Scene) -> None:
        self._member.resume()
        scene.cluster.etcd.wait_healthy()


@dataclass
class KillEtcdLeaderAndNode(Fault):
    """A leader of partitions dies with etcd's leader: etcd elects first, then the controller."""

    id = "F1-etcd"
    title = "kill -9 of etcd's leader and of a leader together"
    pause_s_max = 4.0 + FAILOVER_S_MAX

    def inject(self, scene: Scene) -> None:
        scene.victim = scene.leader()
        self._member = scene.cluster.etcd.leader()
        self._member.kill()
        scene.cluster.process(f"node-{scene.victim}").kill()
        took_s = scene.wait_led_by_others(scene.victim)
        scene.note(f"others lead after {took_s:.1f} s")
        scene.progress()

    def heal(self, scene: Scene) -> None:
        self._member.start()
        scene.cluster.etcd.wait_healthy()
        scene.cluster.expect_end(scene.victim)
        scene.cluster.restart_node(scene.victim)


@dataclass
class PauseEtcd(Fault):
    """No etcd for a minute: produce and consume go on with the current ISRs."""

    seconds: float = 60.0

    id = "F14"
    title = "all members of etcd stand still"
    pause_s_max = UNTOUCHED_S_MAX

    def inject(self, scene: Scene) -> None:
        self._before = _leaders(scene)
        commits = scene.workload.commit_count()
        begun = time.monotonic()
        for member in scene.cluster.etcd.members:
            member.pause()
        while time.monotonic() < begun + self.seconds:
            scene.progress(timeout_s=10)
            scene.workload.wait_for_readers(timeout_s=10)
            assert _leaders(scene) == self._before, "nobody can have been elected"
        commits = scene.workload.commit_count() - commits
        scene.note(f"wrote and read for {_since(begun)} without etcd, {commits} commits")
        assert commits > self.seconds / 2, "the group commits twice a second"

    def heal(self, scene: Scene) -> None:
        begun = time.monotonic()
        for member in scene.cluster.etcd.members:
            member.resume()
        scene.cluster.etcd.wait_healthy()
        wait_until(lambda: _has_controller(scene), timeout_s=40, what="an active controller")
        _create_topic(scene, begun)
        # No election reaches the gateways while there is no store. Epochs never go back, so if they
        # are those from before the outage, there was none.
        assert _leaders(scene) == self._before, "somebody was elected"


class CompactWhileAway(Fault):
    """A standby controller loses its watch and misses changes whose history is then compacted.

    It is paused while each member of etcd is restarted, which ends its streams. When it resumes, the
    revision that it asks for has been compacted: it reads the whole metadata again, and then must
    take over.
    """

    id = "F15"
    title = "etcd is compacted while a controller is away, which then becomes active"
    # The active controller is killed in the end: nothing else happens to the data.
    pause_s_max = UNTOUCHED_S_MAX
    # It must resume before its lease ends: otherwise it reads everything in any case.
    shape = Shape(settings={"controller": {"lease_ttl_ms": "60000"}})

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        active = cluster.active_controller()
        away = next(n for n in cluster.names if n.startswith("controller") and n != active)
        process = cluster.process(away)
        assert not process.lines_with(_READ_AFRESH)
        cluster.pause(away)
        begun = time.monotonic()
        for member in cluster.etcd.members:
            member.kill()
            member.start()
            cluster.etcd.wait_healthy()
        self._topics = [_create_topic(scene, time.monotonic()) for _ in range(3)]
        cluster.etcd.members[0].compact(cluster.store.revision())
        cluster.resume(away)
        scene.note(f"{away} was away for {_since(begun)}")
        wait_until(
            lambda: bool(process.lines_with(_READ_AFRESH)),
            timeout_s=20,
            what=f"{away} told that the history is gone",
        )
        assert cluster.active_controller() == active
        cluster.process(active).kill()
        wait_until(
            lambda: _has_controller(scene) and cluster.active_controller() == away,
            timeout_s=30,
            what=f"{away} active",
        )
        self._topics.append(_create_topic(scene, time.monotonic()))
        cluster.process(active).start()
        scene.note(f"{away} took over")
        scene.progress()

    def heal(self, scene: Scene) -> None:
        """Everything runs."""

    def check(self, scene: Scene) -> None:
        for topic in self._topics:
            wait_for_view(
                scene.cluster.bootstrap, topic, is_whole, timeout_s=30, what=f"leaders of {topic}"
            )


@dataclass
class OldSnapshot(Fault):
    """etcd is restored to an older state: leader epochs must not go back with it.

    No service may use the restored metadata; produce and consume go on, and when the right contents
    are back everything works.
    """

    seconds: float = 15.0

    id = "F16"
    title = "etcd is restored from an old snapshot"
    pause_s_max = UNTOUCHED_S_MAX
    complaints = (_REFUSAL,)

    def inject(self, scene: Scene) -> None:
        cluster = scene.cluster
        snapshot = cluster.data_dir(1).with_name("etcd-snapshot")
        cluster.etcd.save(snapshot)
        scene.victim = scene.leader()
        # That death costs the pause of a failover, which is another fault's business.
        cluster.kill_node(scene.victim)
        scene.wait_led_by_others(scene.victim)
        cluster.restart_node(scene.victim)
        scene.wait_whole()
        scene.progress()
        self._before = scene.view()
        self._begun = scene.begun_s = time.monotonic()
        cluster.etcd.restore(snapshot)
        self._flow_beside_the_store(scene)
        scene.note(f"wrote for {_since(self._begun)} beside an etcd that had gone back")
        assert _refusals(scene), "the controllers say what is wrong"

    def _flow_beside_the_store(self, scene: Scene) -> None:
        while time.monotonic() < self._begun + self.seconds:
            scene.progress(timeout_s=10)
            now = scene.view()
            assert all(now[p].leader_epoch >= self._before[p].leader_epoch for p in now), now
            assert {p: s.leader for p, s in now.items()} == {
                p: s.leader for p, s in self._before.items()
            }, "nobody was elected"

    def heal(self, scene: Scene) -> None:
        scene.cluster.etcd.undo_restore()
        wait_until(lambda: _has_controller(scene), timeout_s=40, what="an active controller")
        _create_topic(scene, self._begun)


@dataclass
class OldSnapshotNewControllers(OldSnapshot):
    """The same with restarted controllers, which learn of the loss from nodes and gateways.

    The operator must then accept the loss of the metadata.
    """

    id = "F16-accepted"
    title = "etcd is restored from an old snapshot, controllers restart, and the loss is accepted"
    pause_s_max = FAILOVER_S_MAX  # All leaders get new epochs at once.

    def inject(self, scene: Scene) -> None:
        super().inject(scene)
        told = len(_refusals(scene))
        self._restart_controllers(scene)
        self._begun = time.monotonic()
        self._flow_beside_the_store(scene)
        assert len(_refusals(scene)) > told, "those that never saw better refuse, too"

    def heal(self, scene: Scene) -> None:
        known = max(
            int(number)
            for line in _refusals(scene)
            for number in re.findall(r"accept_store_loss=(\d+)", line)
        )
        self._restart_controllers(scene, HIGHWATER_CONTROLLER_ACCEPT_STORE_LOSS=str(known))
        begun = time.monotonic()
        scene.wait(
            lambda now: all(
                now[p].leader_epoch > self._before[p].leader_epoch and now[p].leader >= 0
                for p in self._before
            ),
            60,
            "epochs that nobody has seen",
        )
        scene.note(f"up to revision {known} given up: new epochs after {_since(begun)}")
        _create_topic(scene, begun)

    @staticmethod
    def _restart_controllers(scene: Scene, **environment: str) -> None:
        cluster = scene.cluster
        controllers = [cluster.process(n) for n in cluster.names if n.startswith("controller")]
        for process in controllers:
            process.stop()
            for name, value in environment.items():
                process.set_environment(name, value)
        for process in controllers:
            process.start()


class _ElectionToCome:
    """A topic that another replica is to lead: an election that is held when it is asked for."""

    def __init__(self, scene: Scene) -> None:
        self._bootstrap = scene.cluster.bootstrap
        self._topic = make_replicated_topic(self._bootstrap, "elected", partitions=1)
        first, *others = view(self._bootstrap, self._topic)[0].replicas
        self._preferred = others[0]
        with KafkaClient(self._bootstrap, timeout_s=SESSION_S) as client:
            client.reassign(self._topic, {0: (*others, first)})
        before = self._wait(
            lambda parts: parts[0].replicas[0] == self._preferred, "another order of replicas"
        )[0]
        assert before.leader == first
        self._epoch = before.leader_epoch

    def hold(self) -> float:
        """Asks until it is held; the moment, in s of the monotonic clock, when that is seen."""
        wait_until(self._asked, timeout_s=30, what="an answer to ElectLeaders")
        after = self._wait(lambda parts: parts[0].leader == self._preferred, "the election")[0]
        seen_s = time.monotonic()
        assert after.leader_epoch > self._epoch
        return seen_s

    def _asked(self) -> bool:
        wanted = ElectLeadersRequestTopicPartitions(self._topic, [0])
        request = ElectLeadersRequest(_PREFERRED, [wanted], int(SESSION_S * 1000))
        try:
            with RawConnection.to(self._bootstrap) as connection:
                answer = connection.ask(request, _ELECT_LEADERS_VERSION)
        except (OSError, ConnectionEnded):
            return False
        code = answer.replica_election_results[0].partition_result[0].error_code
        # An earlier one that was not answered may have been carried out.
        return code in (0, ErrorCode.ELECTION_NOT_NEEDED)

    def _wait(self, condition: Callable[[Partitions], bool], what: str) -> Partitions:
        return wait_for_view(self._bootstrap, self._topic, condition, timeout_s=30, what=what)


def _leaders(scene: Scene) -> dict[int, tuple[int, int]]:
    """By partition, leader and epoch."""
    return {p.partition: (p.leader, p.leader_epoch) for p in scene.view().values()}


def _refusals(scene: Scene) -> list[str]:
    return [line for line in scene.cluster.complaints() if _REFUSAL in line]


def _wait_for_leader(scene: Scene, lost: EtcdMemberProcess) -> EtcdMemberProcess:
    found: list[EtcdMemberProcess] = []

    def elected() -> bool:
        try:
            leader = scene.cluster.etcd.leader()
        except RuntimeError:
            return False
        found[:] = [leader]
        return leader is not lost

    wait_until(elected, timeout_s=30, what="another leader of etcd")
    return found[0]


def _has_controller(scene: Scene) -> bool:
    try:
        scene.cluster.active_controller()
    except RuntimeError:
        return False
    return True


def _create_topic(scene: Scene, since: float) -> str:
    """Shows that changes are possible again; the topic's name."""
    name = f"made-{scene.chance.getrandbits(40):x}"

    def made() -> bool:
        with KafkaClient(scene.cluster.bootstrap, timeout_s=SESSION_S) as client:
            try:
                client.create_topic(name, partitions=1, replication_factor=3, configs={})
            except Exception as error:  # noqa: BLE001 - any refusal is retried until the deadline.
                return "ALREADY_EXISTS" in str(error)
            return True

    wait_until(made, timeout_s=40, what="a topic", poll_s=0.2)
    scene.note(f"a topic could be made {_since(since)} later")
    return name


def _since(begun: float) -> str:
    return f"{time.monotonic() - begun:.1f} s"
