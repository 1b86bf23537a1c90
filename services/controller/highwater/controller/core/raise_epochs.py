"""After metadata were lost: epochs that nobody can have seen, whatever was lost."""

from dataclasses import replace

from highwater.controller.core.outcome import PENDING_REVISION
from highwater.model.cluster import ClusterDelta, ClusterImage, PartitionState
from highwater.model.ids import LeaderEpoch, TopicId
from highwater.model.steps import Steps, finish


def raise_epochs(image: ClusterImage, by: int) -> ClusterDelta:
    """All leader and partition epochs grow by `by`.

    Each of the lost changes can have made an epoch grow by one, so that the number of lost
    revisions is enough. Leaders and ISRs are those that the store knows.
    """
    return finish(raising_epochs(image, by))


def raising_epochs(image: ClusterImage, by: int) -> Steps[ClusterDelta]:
    """`raise_epochs` in steps of one topic."""
    partitions: dict[TopicId, tuple[PartitionState, ...]] = {}
    for topic in image.topics.values():
        partitions[topic.topic_id] = tuple(
            replace(
                partition,
                leader_epoch=LeaderEpoch(partition.leader_epoch + by),
                partition_epoch=partition.partition_epoch + by,
            )
            for partition in topic.partitions
        )
        yield
    return ClusterDelta(revision=PENDING_REVISION, partitions=partitions)
