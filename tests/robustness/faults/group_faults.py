"""Faults of a consumer group's coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import HighwaterError
from highwater.model.partitioning import coordinator_partition
from tests.conformance.protocol.groups import Member
from tests.robustness.faults.checker import committed_at_the_end
from tests.robustness.faults.fault import Fault, Scene
from tests.robustness.faults.history import Committed
from tests.robustness.faults.workload import MEMBER
from tests.support.cluster_view import view
from tests.support.process import wait_until
from tests.support.wire import ConnectionEnded, RawConnection

_ASK_S_MAX = 20.0
REBALANCE_S_MAX = 60.0
"""A member that has lost its coordinator looks for the next one with pauses of its own."""
_FIRST_GENERATION = 1
_RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}


class KillCoordinator(Fault):
    """The coordinator is killed in the middle of a rebalance; a member joins while it is away.

    The group goes on from its committed offsets, and each partition has one owner. Commits for a
    former generation, and commits of strangers, are refused (R11).
    """

    id = "F35"
    title = "kill -9 of a group's coordinator while members join, and commits of the past"

    def inject(self, scene: Scene) -> None:
        scene.wait(lambda _: committed_all(scene), REBALANCE_S_MAX, "commits of all partitions")
        self._zombie = _stable(scene, members=1).members[0].member_id
        scene.victim = coordinator(scene)
        scene.workload.join()
        state = _rebalancing(scene)
        scene.begun_s = time.monotonic()
        scene.cluster.kill_node(scene.victim)
        scene.workload.join()
        scene.note(f"node {scene.victim} coordinated, the group was {state} with one member more")
        wait_for_the_next_coordinator(scene)
        scene.progress(count=100)
        _stable(scene, members=3)
        before = commits(scene)
        self._assert_past_is_refused(scene)
        scene.progress(count=100)
        wait_for_commits(scene, before)

    def heal(self, scene: Scene) -> None:
        scene.cluster.restart_node(scene.victim)

    def check(self, scene: Scene) -> None:
        """See `assert_offsets`."""
        assert_offsets(scene)

    def _assert_past_is_refused(self, scene: Scene) -> None:
        """Commits for the first member's former generation, and for a stranger in the current one."""
        code = _commit(scene, self._zombie, _FIRST_GENERATION)
        assert code == ErrorCode.ILLEGAL_GENERATION, f"commit of a former generation: {code}"
        code = _commit(scene, "nobody", _FIRST_GENERATION)
        assert code == ErrorCode.UNKNOWN_MEMBER_ID, f"commit of a stranger: {code}"
        found = _committed_offsets(scene)
        assert all(offset > 0 for offset in found.values()), f"a refused commit holds: {found}"


def _commit(scene: Scene, member_id: str, generation: int) -> int:
    """Commits offset 0 of partition 0; returns the error code when a coordinator answers."""
    deadline_s = time.monotonic() + _ASK_S_MAX
    while True:
        code: int = ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            number = coordinator(scene)
            node = next(n for n in scene.cluster.nodes if n.node_id == number)
            with RawConnection(node.host, node.port) as connection:
                member = Member(
                    connection=connection,
                    group=scene.workload.group,
                    member_id=member_id,
                    generation=generation,
                )
                code = member.commit(scene.topic, 0)
        except (StopIteration, ConnectionEnded, OSError, HighwaterError) as error:
            scene.note(f"a commit was not answered: {error!r}")
        if code not in _RETRIABLE or time.monotonic() > deadline_s:
            return code
        time.sleep(0.2)


def assert_offsets(scene: Scene) -> None:
    """Asserts that the group's offsets are those that were confirmed last (R11)."""
    told = committed_at_the_end(scene.workload.history.steps[MEMBER])
    found = _committed_offsets(scene)
    scene.note(f"committed {found}")
    assert sorted(told) == sorted(found)
    assert all(found[p] in told[p] for p in told), f"committed {found}, acknowledged {told}"


def wait_for_commits(scene: Scene, before: Mapping[int, int]) -> None:
    """Waits until commits of all partitions were confirmed, more than `before`."""
    wait_until(
        lambda: all(count > before.get(p, 0) for p, count in commits(scene).items()),
        timeout_s=REBALANCE_S_MAX,
        what="commits of all partitions",
    )


def wait_for_the_next_coordinator(scene: Scene) -> None:
    """Waits until another node than the victim coordinates the group."""
    wait_until(
        lambda: coordinator(scene) not in (-1, scene.victim),
        timeout_s=30,
        what="another coordinator",
    )


def coordinator(scene: Scene) -> int:
    """The node that leads the group's partition of __consumer_offsets; -1 if none does."""
    parts = view(scene.cluster.bootstrap_beside(scene.victim), "__consumer_offsets")
    return parts[coordinator_partition(scene.workload.group, len(parts))].leader


def commits(scene: Scene) -> dict[int, int]:
    """By partition, how many of the group's commits were confirmed."""
    counts: dict[int, int] = {}
    for step in list(scene.workload.history.steps[MEMBER]):
        if isinstance(step, Committed):
            counts[step.partition] = counts.get(step.partition, 0) + 1
    return counts


def committed_all(scene: Scene) -> bool:
    return len(commits(scene)) == scene.workload.history.partitions


def _committed_offsets(scene: Scene) -> dict[int, int]:
    """The committed offsets by partition, from OffsetFetch."""
    partitions = range(scene.workload.history.partitions)
    consumer = Consumer(
        {"bootstrap.servers": scene.cluster.bootstrap, "group.id": scene.workload.group}
    )
    try:
        places = [TopicPartition(scene.topic, partition) for partition in partitions]
        return {
            place.partition: place.offset
            for place in consumer.committed(places, timeout=_ASK_S_MAX)
            if place.error is None
        }
    finally:
        consumer.close()


def _stable(scene: Scene, *, members: int) -> ConsumerGroupDescription:
    """Waits until so many members share the partitions, with one owner each; returns the group."""

    def settled(group: ConsumerGroupDescription) -> bool:
        owned = [
            place.partition
            for member in group.members
            for place in member.assignment.topic_partitions
        ]
        return (
            group.state == ConsumerGroupState.STABLE
            and len(group.members) == members
            and sorted(owned) == list(range(scene.workload.history.partitions))
        )

    return _described(scene, settled, REBALANCE_S_MAX, f"a stable group of {members}")


def _rebalancing(scene: Scene) -> str:
    """Waits until the next member is joining; returns the group's state."""
    group = _described(
        scene,
        lambda group: group.state != ConsumerGroupState.STABLE or len(group.members) > 1,
        REBALANCE_S_MAX,
        "a member that joins",
    )
    return str(group.state.name)


def _described(
    scene: Scene,
    condition: Callable[[ConsumerGroupDescription], bool],
    timeout_s: float,
    what: str,
) -> ConsumerGroupDescription:
    admin = AdminClient({"bootstrap.servers": scene.cluster.bootstrap})
    name = scene.workload.group
    last: ConsumerGroupDescription | None = None

    def holds() -> bool:
        nonlocal last
        try:
            last = admin.describe_consumer_groups([name], request_timeout=5)[name].result(10)
        except (KafkaException, TimeoutError):
            return False
        assert last is not None
        return condition(last)

    wait_until(holds, timeout_s=timeout_s, what=what)
    assert last is not None
    return last
