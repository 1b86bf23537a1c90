"""What makes a coordinator the coordinator of groups: its shard, records, snapshot and replies."""

from collections.abc import Callable
from typing import Final

from highwater.partition.coordinator.kind import CoordinatorKind
from highwater.partition.coordinator.records import RecordCodec, TransactionalRecords
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


def group_kind(config: GroupConfig, new_id: Callable[[], str]) -> GroupKind:
    """`new_id` returns another unique string at each call, for member ids (Kafka: UUIDs)."""
    return CoordinatorKind(
        name="group",
        new_shard=lambda: GroupCoordinatorShard(config, new_id),
        hosted=lambda shard: shard,
        codec=GROUP_RECORDS,
        replies=GROUP_REPLIES,
        snapshot_magic=SNAPSHOT_MAGIC,
    )
