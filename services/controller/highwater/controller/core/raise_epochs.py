"""After a loss of metadata: raises epochs above all that anybody can have seen."""

from dataclasses import replace

from highwater.controller.core.outcome import PENDING_REVISION
from highwater.model.cluster import ClusterDelta, ClusterImage, PartitionState
from highwater.model.ids import LeaderEpoch, TopicId
from highwater.model.steps import Steps, finish


def raise_epochs(image: ClusterImage, by: int) -> ClusterDelta:
    """All leader and partition epochs grow by `by`.

    A lost change can have raised an epoch by at most one, so the number of lost revisions is
    enough. Leaders and ISRs stay as the store has them.
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
