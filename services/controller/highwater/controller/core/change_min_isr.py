"""What a changed min.insync.replicas does to partitions (KIP-966).

Eligible leaders hold everything committed only because nothing is committed while the ISR is
smaller than the minimum. A lower minimum ends that, so they are forgotten in the same transaction.
The partition epoch grows with every change: a leader takes the minimum and the ISR from the same
record, and proposals that it made under the old minimum are refused.
"""

from dataclasses import replace

from highwater.model.cluster import PartitionState


def after_min_isr_change(partition: PartitionState, *, min_isr: int) -> PartitionState:
    """The partition as it has to be committed together with the config."""
    enough = len(partition.isr) >= min(min_isr, len(partition.replicas))
    return replace(
        partition,
        eligible_leaders=() if enough else partition.eligible_leaders,
        partition_epoch=partition.partition_epoch + 1,
    )
