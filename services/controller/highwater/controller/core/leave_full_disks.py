"""Partitions whose leaders' disks are nearly full, and that other replicas could lead.

A move ends at a replica with space, so with the same reports it is the last one: if all replicas in
sync are on full disks, nobody moves.
"""

from collections.abc import Container, Iterable, Mapping

from highwater.controller.core.change_leader import elect_with_space
from highwater.controller.core.full_replicas import Avoided, Replicas
from highwater.controller.core.membership import candidates_among
from highwater.controller.core.offline_replicas import OfflineByNode, nodes_without
from highwater.controller.core.outcome import Changes, Decision, delta_of
from highwater.controller.core.partition_index import PartitionIndex, PartitionKey
from highwater.model.cluster import ClusterImage, PartitionState
from highwater.model.ids import NodeId
from highwater.model.steps import Steps

FullByNode = Mapping[NodeId, Replicas]
"""The replicas of each node whose disks are nearly full."""


def finding_crowded(
    image: ClusterImage,
    index: PartitionIndex,
    full: FullByNode,
    avoided: Avoided,
    offline: OfflineByNode,
    *,
    resting: Container[PartitionKey] = (),
    limit: int,
) -> Steps[list[PartitionKey]]:
    """Partitions that `leave_full_disks` would move, `limit` at most, in steps of one partition.

    `index` is the image's. Those that rest are left out.
    """
    rule = _Rule(image, full, avoided, offline)
    found: list[PartitionKey] = []
    for node, topics in tuple(full.items()):
        for key in index.led.get(node, ()):
            if len(found) == limit:
                return found
            told = key[1] in topics.get(key[0], ()) and key not in resting
            if told and rule.after(key) is not None:
                found.append(key)
            yield
    return found


def leave_full_disks(
    image: ClusterImage,
    keys: Iterable[PartitionKey],
    full: FullByNode,
    avoided: Avoided,
    offline: OfflineByNode,
) -> Decision[int]:
    """Those of the partitions led by replicas with space where that is possible; their number.

    The new leader is in sync, on a live node that is not draining, with a working log.
    """
    rule = _Rule(image, full, avoided, offline)
    changed: Changes = {}
    for topic_id, number in keys:
        after = rule.after((topic_id, number))
        if after is not None:
            changed.setdefault(topic_id, {})[number] = after
    return Decision(delta=delta_of(changed), result=sum(map(len, changed.values())))


class _Rule:
    """One image and what nodes say at the time."""

    def __init__(
        self, image: ClusterImage, full: FullByNode, avoided: Avoided, offline: OfflineByNode
    ) -> None:
        self._image = image
        self._full = full
        self._avoided = avoided
        self._failed = nodes_without(offline)
        self._candidates = candidates_among(image.nodes.values())

    def after(self, key: PartitionKey) -> PartitionState | None:
        """The partition led by a replica with space; None if it stays, or is no longer there."""
        topic_id, number = key
        topic = self._image.topics.get(topic_id)
        if topic is None or number >= len(topic.partitions):
            return None
        present = topic.partitions[number]
        if number not in self._full.get(present.leader, {}).get(topic_id, ()):
            return None  # Another node leads by now, or the disk has space again.
        here = self._failed.get(topic_id, {}).get(number, frozenset())
        full = self._avoided(topic_id, number)
        return elect_with_space(present, self._candidates.of_partition(failed=here, full=full))
