"""What makes a coordinator the coordinator of groups: its shard, records, snapshot and replies."""

from collections.abc import Callable, Mapping
from typing import Final

from highwater.partition.coordinator.kind import CoordinatorKind, nothing_more
from highwater.partition.coordinator.records import RecordCodec, TransactionalRecords
from highwater.partition.groups.consumer.assignors.types import Assignor
from highwater.partition.groups.consumer.group_configs import ConfigOf
from highwater.partition.groups.consumer.topics import Topics
from highwater.partition.groups.consumer_core.shard import ConsumerShard
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.durable import Record, TransactionEnd
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import Response
from highwater.partition.groups.records import batch_of, decode, encode, pending
from highwater.partition.groups.replies import GROUP_REPLIES

SNAPSHOT_FILE_NAME: Final = "group-snapshot"
"""In the directory of each partition's log."""

SNAPSHOT_MAGIC: Final = b"HWGS"

GROUP_RECORDS: Final = RecordCodec(
    encode=encode,
    decode=decode,
    transactions=TransactionalRecords(pending=pending, ended=TransactionEnd, batch_of=batch_of),
)

GroupKind = CoordinatorKind[GroupCoordinatorShard, Record, Response]


def group_kind(
    config: GroupConfig,
    new_id: Callable[[], str],
    topics: Topics,
    assignors: Mapping[str, Assignor],
    config_of: ConfigOf,
    activated: Callable[[GroupCoordinatorShard], None] = nothing_more,
) -> GroupKind:
    """For the arguments see `GroupCoordinatorShard`, `ConsumerState` and `CoordinatorKind`."""
    return CoordinatorKind(
        name="group",
        new_shard=lambda: GroupCoordinatorShard(
            config, new_id, lambda state: ConsumerShard(state, topics, assignors, config_of)
        ),
        hosted=lambda shard: shard,
        codec=GROUP_RECORDS,
        replies=GROUP_REPLIES,
        snapshot_magic=SNAPSHOT_MAGIC,
        activated=activated,
    )
