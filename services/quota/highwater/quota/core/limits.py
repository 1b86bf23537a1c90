"""The metadata that quotas need: limited instances, and how many partitions each node leads."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater.model.cluster import ClusterImage
from highwater.model.ids import NO_NODE, InstanceId, NodeId
from highwater.model.instances import InstanceState


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The part of a cluster image that quotas depend on; no change means no new allocations."""

    instances: Mapping[InstanceId, InstanceState] = field(default_factory=dict)
    """Only instances with at least one limit."""
    leaders: Mapping[InstanceId, Mapping[NodeId, int]] = field(default_factory=dict)
    """Numbers of partitions that nodes lead, by instance and node, without internal topics."""
    leaderless: Mapping[InstanceId, int] = field(default_factory=dict)
    """Numbers of partitions that nobody leads now, of instances that have any."""

    @staticmethod
    def of(image: ClusterImage) -> "Limits":
        """The limits at the image's revision. O(partitions of limited instances)."""
        limited = {
            instance: state
            for instance, state in image.instances.items()
            if state.has_traffic_limits
        }
        leaders: dict[InstanceId, Counter[NodeId]] = {instance: Counter() for instance in limited}
        leaderless: Counter[InstanceId] = Counter()
        for topic in image.topics.values():
            # Internal topics are never throttled, so they get no share.
            if topic.internal or topic.instance not in limited:
                continue
            counts = leaders[topic.instance]
            for partition in topic.partitions:
                if partition.leader == NO_NODE:
                    leaderless[topic.instance] += 1
                else:
                    counts[partition.leader] += 1
        return Limits(instances=limited, leaders=leaders, leaderless=leaderless)
