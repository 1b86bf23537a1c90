"""Cluster images and reports for the quota tests."""

from highwater.model.cluster import ClusterImage, PartitionState, TopicState
from highwater.model.instances import InstanceState
from highwater.quota.core.usage import InstanceUsage, NodeUsage


def topic(name, leaders, *, instance="default", internal=False):
    """A topic whose partition i is led by leaders[i]."""
    return TopicState(
        topic_id=(instance + name).encode().ljust(16, b"\0")[:16],
        instance=instance,
        name=name,
        internal=internal,
        partitions=tuple(
            PartitionState(
                partition=number,
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
                replicas=(1, 2, 3),
                isr=(1, 2, 3),
            )
            for number, leader in enumerate(leaders)
        ),
    )


def image(topics, *instances, revision=1):
    return ClusterImage(
        revision=revision,
        cluster_id="c",
        topics={one.topic_id: one for one in topics},
        instances={one.instance: one for one in instances},
    )


def limited(instance="default", **limits):
    return InstanceState(instance=instance, **limits)


def usage(node, *, epoch=1, **counts):
    """A report of one second on the default instance."""
    return NodeUsage(
        node_id=node,
        node_epoch=epoch,
        tick_ms=1000,
        instances={"default": InstanceUsage(**counts)},
    )
