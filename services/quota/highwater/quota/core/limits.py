"""What the cluster's metadata says about sharing: limited instances, and who leads how much."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from highwater.model.cluster import ClusterImage, InstanceState
from highwater.model.ids import NO_NODE, InstanceId, NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The part of a cluster image that quotas depend on; equal values need no new allocation."""

    instances: Mapping[InstanceId, InstanceState] = field(default_factory=dict)
    """Only instances with at least one limit."""
    leaders: Mapping[InstanceId, Mapping[NodeId, int]] = field(default_factory=dict)
    """Leader partitions of those instances by node, internal topics left out."""

    @staticmethod
    def of(image: ClusterImage) -> "Limits":
        """The limits at the image's revision. O(partitions of limited instances)."""
        limited = {
            instance: state for instance, state in image.instances.items() if is_limited(state)
        }
        leaders: dict[InstanceId, Counter[NodeId]] = {instance: Counter() for instance in limited}
        for topic in image.topics.values():
            # Offset commits and markers are never throttled, so they weigh nothing.
            if topic.internal or topic.instance not in limited:
                continue
            leaders[topic.instance].update(
                partition.leader for partition in topic.partitions if partition.leader != NO_NODE
            )
        return Limits(instances=limited, leaders=leaders)


def is_limited(state: InstanceState) -> bool:
    """True if anything of the instance is limited."""
    return (
        state.produce_bytes_per_second is not None
        or state.consume_bytes_per_second is not None
        or state.storage_bytes is not None
    )
