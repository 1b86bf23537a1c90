"""What makes a coordinator the coordinator of transactions: shard, records, snapshot, replies."""

from collections.abc import Callable, Iterable
from typing import Final

from highwater.hop.coordinator import CoordinatorCall
from highwater.partition.coordinator.kind import CoordinatorKind, FollowUp, nothing_more
from highwater.partition.coordinator.records import RecordCodec
from highwater.partition.coordinator.replies import Replies
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import TransactionRecord
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.values import NewProducerId
from highwater.partition.transactions.records import decode, encode

SNAPSHOT_FILE_NAME: Final = "transaction-snapshot"
"""In the directory of each partition's log."""

SNAPSHOT_MAGIC: Final = b"HWTS"

TRANSACTION_RECORDS: Final = RecordCodec(encode=encode, decode=decode)

TransactionKind = CoordinatorKind[TransactionShard, TransactionRecord, None]


def transaction_kind(
    config: TransactionConfig,
    new_id: NewProducerId,
    transaction_version: Callable[[], int],
    follow_ups: Callable[[TransactionShard, int, int], Iterable[FollowUp]],
    activated: Callable[[TransactionShard], None] = nothing_more,
) -> TransactionKind:
    """`follow_ups` sends the markers of what a shard has prepared. For `activated` see `CoordinatorKind`."""
    return CoordinatorKind(
        name="transaction",
        new_shard=lambda: TransactionShard(config, new_id, transaction_version),
        hosted=lambda shard: shard,
        codec=TRANSACTION_RECORDS,
        replies=TRANSACTION_REPLIES,
        snapshot_magic=SNAPSHOT_MAGIC,
        follow_ups=follow_ups,
        activated=activated,
    )


def _nothing_waits(_call: CoordinatorCall, _response: None) -> bytes:
    raise AssertionError("no call waits in a shard of transactions")


def _as_it_is(_api_key: int, error: int) -> int:
    return error


def _no_body(_call: CoordinatorCall) -> bytes | None:
    return None


TRANSACTION_REPLIES: Final = Replies(
    encode=_nothing_waits, error_for=_as_it_is, while_loading=_no_body
)
