from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.coordinator.snapshot import decode_snapshot, encode_snapshot
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer.group_configs import ImageGroupConfigs
from highwater.partition.groups.consumer.topics import ImageTopics
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.durable import (
    CommittedOffset,
    DurableState,
    OffsetRecord,
    PendingOffset,
)
from highwater.partition.groups.core.values import GroupKey
from highwater.partition.groups.kind import (
    GROUP_RECORDS,
    SNAPSHOT_MAGIC,
    group_kind,
)
from tests.unit.partition.coordinator.memory_log import TOPIC_ID, place_of
from tests.unit.partition.groups.dialogue import Dialogue

CONFIG = GroupConfig()
KIND = group_kind(
    CONFIG, lambda: "x", ImageTopics(), ASSIGNORS, ImageGroupConfigs(CONFIG.consumer_bounds).of
)


def encoded(state: DurableState, last_epoch: int, offset: int) -> bytes:
    return encode_snapshot(
        state,
        GROUP_RECORDS,
        SNAPSHOT_MAGIC,
        last_epoch=last_epoch,
        offset=offset,
        place=place_of(3),
    )


def test_names_of_log_events():
    assert KIND.event("shard_loaded") == "group_shard_loaded"


def test_snapshot_holds_the_state_its_epoch_and_its_offset():
    d = Dialogue()
    leader, _ = d.stable_pair()
    d.commit({("t", 0): 4}, leader, 1)
    snapshot = decode_snapshot(encoded(d.shard.capture(), 7, 99), SNAPSHOT_MAGIC)
    assert (snapshot.last_epoch, snapshot.offset, snapshot.record_count) == (7, 99, 2)
    assert (snapshot.topic_id, snapshot.partition) == (TOPIC_ID, 3)
    copy = DurableState()
    for _, (key, value) in snapshot.records():
        copy.replay(GROUP_RECORDS.decode(key, value))
    assert copy.images == d.shard.durable.images
    assert copy.offsets == d.shard.durable.offsets


def test_layout_of_snapshots_by_example():
    state = DurableState()
    key = GroupKey(DEFAULT_INSTANCE, "g0")
    state.replay(OffsetRecord(key, "t", 0, CommittedOffset(0, -1, "", 1)))
    data = encoded(state, 1, 2)
    assert data[:6].hex() == "485747530004"
    assert data[10:30].hex() == "00000001" + "0000000000000002" + "0000000000000001"
    assert data[30:50] == b"consumer offsets" + b"\0\0\0\3"
    assert data[50:60].hex() == "ff" * 10  # Of no transaction.
    assert data[60:64].hex() == "0000000d"  # Length of the key 0001 0002 6730 0001 74 00000000.
    assert data[64:77].hex() == "00010002673000017400000000"


def test_offsets_of_open_transactions_are_in_a_snapshot():
    state, key = DurableState(), GroupKey(DEFAULT_INSTANCE, "g0")
    offset = OffsetRecord(key, "t", 0, CommittedOffset(0, -1, "", 1))
    state.replay(PendingOffset(Producer(7, 3), offset))
    ((producer, encoded_record),) = decode_snapshot(encoded(state, 1, 2), SNAPSHOT_MAGIC).records()
    assert producer == Producer(7, 3)
    assert GROUP_RECORDS.decode(*encoded_record) == offset
