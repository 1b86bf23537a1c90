"""Faults of the coordinator of a group of the consumer protocol (KIP-848): it is away, and lives on.

Its members keep their ids and their partitions: they were heard within their sessions of 45 s, which the
next coordinator begins anew. The former one, when it is back, has nothing to say any more.
"""

from __future__ import annotations

import time
from typing import Any

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from highwater.model.errors import HighwaterError
from tests.robustness.faults.fault import SESSION_S, Fault, Scene
from tests.robustness.faults.group_faults import (
    REBALANCE_S_MAX,
    assert_offsets,
    commits,
    committed_all,
    coordinator,
    wait_for_commits,
    wait_for_the_next_coordinator,
)
from tests.robustness.faults.network_faults import NetworkFault
from tests.robustness.faults.process_faults import GIVE_UP_S, SILENT_PAUSE_S_MAX
from tests.support.process import wait_until
from tests.support.wire import ConnectionEnded, RawConnection, only

CONSUMER_PROTOCOL = {"group.protocol": "consumer"}
_DESCRIBE_VERSION = 0


class PausedCoordinator(Fault):
    """The coordinator is paused for longer than its session, and resumes without knowing of the next one."""

    id = "F35-pause"
    title = "SIGSTOP of a consumer group's coordinator for two sessions, then SIGCONT"
    client_settings = CONSUMER_PROTOCOL
    pause_s_max = SESSION_S + GIVE_UP_S

    def inject(self, scene: Scene) -> None:
        self._members = _stand(scene)
        scene.begun_s = time.monotonic()
        scene.cluster.pause(f"node-{scene.victim}")
        _assert_it_goes_on(scene, self._members)
        time.sleep(max(0.0, scene.begun_s + 2 * SESSION_S - time.monotonic()))

    def heal(self, scene: Scene) -> None:
        scene.cluster.resume(f"node-{scene.victim}")
        _assert_it_goes_on(scene, self._members)

    def check(self, scene: Scene) -> None:
        """See `assert_offsets`."""
        assert_offsets(scene)


class CutOffCoordinator(NetworkFault):
    """The coordinator is cut off from everybody, and hears of the next one when it is back."""

    id = "F35-cut"
    title = "a consumer group's coordinator is cut off from everybody"
    client_settings = CONSUMER_PROTOCOL
    pause_s_max = SILENT_PAUSE_S_MAX

    def inject(self, scene: Scene) -> None:
        self._members = _stand(scene)
        scene.begun_s = time.monotonic()
        peers = self.everybody(scene, scene.victim)
        self.network.cut_incoming(scene.victim, peers)
        self.network.cut_outgoing(scene.victim, peers)
        _assert_it_goes_on(scene, self._members)

    def heal(self, scene: Scene) -> None:
        super().heal(scene)
        _assert_it_goes_on(scene, self._members)

    def check(self, scene: Scene) -> None:
        """See `assert_offsets`."""
        assert_offsets(scene)


def _stand(scene: Scene) -> list[str]:
    """Two members share the partitions; the victim is their coordinator. Returns the members' ids."""
    scene.wait(lambda _: committed_all(scene), REBALANCE_S_MAX, "commits of all partitions")
    scene.workload.join()
    wait_until(
        lambda: _shared_by(scene, 2),
        timeout_s=REBALANCE_S_MAX,
        what="a stable group of two members",
    )
    scene.victim = coordinator(scene)
    scene.note(f"node {scene.victim} coordinated")
    return _member_ids(_described(scene))


def _assert_it_goes_on(scene: Scene, members: list[str]) -> None:
    """Another node coordinates, commits go on in all partitions, and the members are those of before."""
    wait_for_the_next_coordinator(scene)
    wait_for_commits(scene, commits(scene))
    wait_until(
        lambda: (group := _described(scene)) is not None and _member_ids(group) == members,
        timeout_s=REBALANCE_S_MAX,
        what="the members of before: none was removed, or joined anew",
    )


def _shared_by(scene: Scene, count: int) -> bool:
    group = _described(scene)
    if group is None or group.group_state != "Stable" or len(group.members) != count:
        return False
    owned = [
        partition
        for member in group.members
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    ]
    return sorted(owned) == list(range(scene.workload.history.partitions))


def _member_ids(group: Any) -> list[str]:
    return sorted(member.member_id for member in group.members)


def _described(scene: Scene) -> Any:
    """ConsumerGroupDescribe's answer; None while nobody gives one."""
    try:
        number = coordinator(scene)
        node = next(n for n in scene.cluster.nodes if n.node_id == number)
        with RawConnection(node.host, node.port) as connection:
            request = ConsumerGroupDescribeRequest([scene.workload.group])
            group = only(connection.ask(request, _DESCRIBE_VERSION).groups)
    except (StopIteration, ConnectionEnded, OSError, HighwaterError) as error:
        scene.note(f"the group was not described: {error!r}")
        return None
    return group if group.error_code == ErrorCode.NONE else None
