from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.coordinator.snapshot import decode_snapshot, encode_snapshot
from highwater.partition.transactions.core.config import TransactionConfig
from highwater.partition.transactions.core.image import DurableState
from highwater.partition.transactions.kind import (
    SNAPSHOT_MAGIC,
    TRANSACTION_RECORDS,
    TRANSACTION_REPLIES,
    transaction_kind,
)
from tests.unit.partition.coordinator.memory_log import place_of
from tests.unit.partition.transactions.core.dialogue import Dialogue


def test_the_kind_makes_shards_and_asks_for_what_follows():
    kind = transaction_kind(
        TransactionConfig(), lambda: 1, lambda: 2, lambda shard, *place: [(shard, place)]
    )
    shard = kind.new_shard()
    assert kind.hosted(shard) is shard
    assert kind.event("shard_loaded") == "transaction_shard_loaded"
    assert kind.follow_ups(shard, 3, 7) == [(shard, (3, 7))]


def test_a_snapshot_holds_the_state():
    d = Dialogue()
    d.add(d.begin())
    data = encode_snapshot(
        d.shard.capture(),
        TRANSACTION_RECORDS,
        SNAPSHOT_MAGIC,
        last_epoch=7,
        offset=9,
        place=place_of(3),
    )
    copy = DurableState()
    for _, (key, value) in decode_snapshot(data, b"HWTS").records():
        copy.replay(TRANSACTION_RECORDS.decode(key, value))
    assert copy.images == d.shard.images


def test_errors_are_told_as_they_are():
    told = []
    call = CoordinatorCall(
        api_key=ApiKey.END_TXN,
        api_version=5,
        instance=DEFAULT_INSTANCE,
        client_id="",
        client_host="",
        body=b"",
        partition=0,
        deadline_ms=0,
        reply=lambda error, body: told.append((error, body)),
    )
    TRANSACTION_REPLIES.refuse(call, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert told == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, b"")]
