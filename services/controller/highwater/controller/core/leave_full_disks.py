"""Partitions whose leaders' disks are nearly full, and that other replicas could lead.

A move ends at a replica with space, so with the same reports it is the last one: if all replicas in
sync are on full disks, nobody moves.
"""

from collections.abc import Iterable, Mapping

from highwater.controller.core.change_leader import elect_with_space
from highwater.controller.core.full_replicas import Avoided, Replicas
from highwater.controller.core.membership import candidates_among
from highwater.controller.core.offline_replicas import OfflineByNode, nodes_without
from highwater.controller.core.outcome import Changes, Decision, delta_of
from highwater.controller.core.partition_index import PartitionIndex, PartitionKey
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NodeId

FullByNode = Mapping[NodeId, Replicas]
"""The replicas of each node whose disks are nearly full."""


def crowded(index: PartitionIndex, full: FullByNode) -> list[PartitionKey]:
    """The partitions whose leaders' disks are nearly full, in order."""
    found: list[PartitionKey] = []
    for node, topics in full.items():
        led = index.led.get(node, frozenset())
        found += (key for key in led if key[1] in topics.get(key[0], ()))
    return sorted(found)


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
    candidates = candidates_among(image.nodes.values())
    failed = nodes_without(offline)
    changed: Changes = {}
    for topic_id, number in keys:
        topic = image.topics.get(topic_id)
        if topic is None or number >= len(topic.partitions):
            continue  # The topic was deleted meanwhile.
        present = topic.partitions[number]
        if number not in full.get(present.leader, {}).get(topic_id, ()):
            continue  # Another node leads by now, or the disk has space again.
        here = failed.get(topic_id, {}).get(number, frozenset())
        able = candidates.of_partition(failed=here, full=avoided(topic_id, number))
        after = elect_with_space(present, able)
        if after is not None:
            changed.setdefault(topic_id, {})[number] = after
    return Decision(delta=delta_of(changed), result=sum(map(len, changed.values())))
