"""How a change of min.insync.replicas changes partitions (KIP-966).

Eligible leaders hold everything committed only because nothing is committed while the ISR is
smaller than the minimum. A lower minimum ends that, so the same transaction clears them. The
partition epoch grows with every change: a leader takes the minimum and the ISR from the same
record, and the proposals that it made under the old minimum are refused.

The store may split the transaction, partitions first and the config last: an interrupted change
leaves partitions with no eligible leaders under the old minimum, which is safe.
"""

from dataclasses import replace

from highwater.model.cluster import PartitionState, TopicState


def after_min_isr_change(partition: PartitionState, *, min_isr: int) -> PartitionState:
    """The partition to commit together with the config."""
    enough = len(partition.isr) >= min(min_isr, len(partition.replicas))
    return replace(
        partition,
        eligible_leaders=() if enough else partition.eligible_leaders,
        partition_epoch=partition.partition_epoch + 1,
    )


def topic_after_min_isr_change(topic: TopicState, *, before: int, after: int) -> TopicState:
    """The topic with all partitions for which another minimum holds now.

    The minimum of a partition is at most its number of replicas, so many changes have no effect.
    """
    partitions = tuple(
        after_min_isr_change(p, min_isr=after)
        if min(before, len(p.replicas)) != min(after, len(p.replicas))
        else p
        for p in topic.partitions
    )
    return topic if partitions == topic.partitions else replace(topic, partitions=partitions)
