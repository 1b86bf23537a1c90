"""Which internal topic, and which of its partitions, has the groups or transactions of an instance.

The default instance has its own in `__consumer_offsets` and `__transaction_state`, which its clients see
and which are Kafka's to the byte. All other instances share one pair of topics that no client sees: a
topic of each instance's own would cost each of them a hundred partitions. There the records' keys begin
with the instance, and so does what chooses the partition.

Inside an instance, as in the records of its transactions, both topics go by Kafka's names.
"""

from typing import Final

from highwater.model.ids import (
    DEFAULT_INSTANCE,
    GROUP_METADATA_TOPIC,
    SYSTEM_INSTANCE,
    TRANSACTION_STATE_TOPIC,
    InstanceId,
)
from highwater.model.partitioning import coordinator_partition

INSTANCE_GROUP_METADATA_TOPIC: Final = "__instance_offsets"
INSTANCE_TRANSACTION_STATE_TOPIC: Final = "__instance_transactions"

_SHARED: Final = {
    GROUP_METADATA_TOPIC: INSTANCE_GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC: INSTANCE_TRANSACTION_STATE_TOPIC,
}
"""By the topic of the default instance, that of all others."""

COORDINATOR_TOPICS: Final = frozenset(
    {(DEFAULT_INSTANCE, name) for name in _SHARED}
    | {(SYSTEM_INSTANCE, name) for name in _SHARED.values()}
)
"""(instance, name) of all internal topics that there may be."""


def coordinator_home(instance: InstanceId) -> InstanceId:
    """The instance whose internal topics have the groups and transactions of `instance`."""
    return DEFAULT_INSTANCE if instance == DEFAULT_INSTANCE else SYSTEM_INSTANCE


def coordinator_topic_name(topic: str, instance: InstanceId) -> str:
    """The name in that home of what an instance calls `__consumer_offsets` or `__transaction_state`."""
    return topic if instance == DEFAULT_INSTANCE else _SHARED[topic]


def coordinator_place(instance: InstanceId, key: str, partitions: int) -> int:
    """The partition, in 0..partitions-1, whose leader coordinates a group or transactional id."""
    if instance == DEFAULT_INSTANCE:
        return coordinator_partition(key, partitions)
    return coordinator_partition(f"{instance}/{key}", partitions)
