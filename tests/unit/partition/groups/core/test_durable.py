from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.groups.core.durable import (
    CommittedOffset,
    DurableState,
    GroupImage,
    GroupRecord,
    OffsetRecord,
)
from highwater.partition.groups.core.values import GroupKey

KEY = GroupKey(DEFAULT_INSTANCE, "g")
IMAGE = GroupImage(
    protocol_type="consumer",
    generation=1,
    protocol=None,
    leader=None,
    state_since_ms=0,
    members=(),
)


def value(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def test_replay_sets_replaces_and_deletes():
    state = DurableState()
    state.replay(GroupRecord(KEY, IMAGE))
    state.replay(OffsetRecord(KEY, "t", 0, value(1)))
    state.replay(OffsetRecord(KEY, "t", 0, value(2)))
    state.replay(OffsetRecord(KEY, "t", 1, value(3)))
    assert state.offset_count == 2
    assert state.offsets[KEY]["t", 0].offset == 2
    state.replay(OffsetRecord(KEY, "t", 0, None))
    state.replay(OffsetRecord(KEY, "t", 1, None))
    assert (state.offset_count, state.offsets) == (0, {})
    assert state.images == {KEY: IMAGE}
    state.replay(GroupRecord(KEY, None))
    assert state.images == {}


def test_deleting_a_missing_record_changes_nothing():
    state = DurableState()
    state.replay(OffsetRecord(KEY, "t", 0, None))
    state.replay(GroupRecord(KEY, None))
    state.replay(OffsetRecord(KEY, "t", 0, value(1)))
    state.replay(OffsetRecord(KEY, "t", 1, None))
    assert state.offset_count == 1


def test_replaying_twice_is_replaying_once():
    records = [
        GroupRecord(KEY, IMAGE),
        OffsetRecord(KEY, "t", 0, value(1)),
        OffsetRecord(KEY, "t", 1, value(1)),
        OffsetRecord(KEY, "t", 1, None),
    ]
    once, twice = DurableState(), DurableState()
    for record in records:
        once.replay(record)
    for record in records + records:
        twice.replay(record)
    assert (once.images, once.offsets) == (twice.images, twice.offsets)
    assert once.offset_count == twice.offset_count == 1


def test_a_captured_copy_does_not_change_and_its_records_rebuild_it():
    state = DurableState()
    state.replay(GroupRecord(KEY, IMAGE))
    state.replay(OffsetRecord(KEY, "t", 0, value(1)))
    copy = state.capture()
    state.replay(OffsetRecord(KEY, "t", 0, value(2)))
    state.replay(GroupRecord(KEY, None))
    again = DurableState()
    for record in copy.records():
        again.replay(record)
    assert again.images == {KEY: IMAGE}
    assert again.offsets == {KEY: {("t", 0): value(1)}}
    assert again.offset_count == copy.offset_count == 1
