import pytest

from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.groups.core.durable import CommittedOffset, DurableState, OffsetRecord
from highwater.partition.groups.core.values import GroupKey
from highwater.partition.groups.records import decode
from highwater.partition.groups.snapshot import (
    FileSnapshotStore,
    SnapshotError,
    decode_snapshot,
    encode_snapshot,
)
from tests.unit.partition.groups.dialogue import Dialogue


def state_with(count: int) -> DurableState:
    state = DurableState()
    for n in range(count):
        key = GroupKey(DEFAULT_INSTANCE, f"g{n % 3}")
        state.replay(OffsetRecord(key, "t", n, CommittedOffset(n, -1, "", 1)))
    return state


def test_snapshot_holds_the_state_its_epoch_and_its_offset():
    d = Dialogue()
    leader, _ = d.stable_pair()
    d.commit({("t", 0): 4}, leader, 1)
    snapshot = decode_snapshot(encode_snapshot(d.shard.durable, 7, 99))
    assert (snapshot.leader_epoch, snapshot.offset, snapshot.record_count) == (7, 99, 2)
    copy = DurableState()
    for key, value in snapshot.records():
        copy.replay(decode(key, value))
    assert copy.images == d.shard.durable.images
    assert copy.offsets == d.shard.durable.offsets


def test_layout_by_example():
    data = encode_snapshot(state_with(1), 1, 2)
    assert data[:6].hex() == "485747530001"
    assert data[10:30].hex() == "00000001" + "0000000000000002" + "0000000000000001"
    assert data[30:34].hex() == "0000000d"  # Length of the key 0001 0002 6730 0001 74 00000000.
    assert data[34:47].hex() == "00010002673000017400000000"


def test_every_flipped_byte_and_every_cut_is_noticed():
    data = encode_snapshot(state_with(3), 1, 2)
    for index in range(len(data)):
        broken = bytearray(data)
        broken[index] ^= 0x41
        with pytest.raises(SnapshotError):
            decode_snapshot(bytes(broken))
        with pytest.raises(SnapshotError):
            decode_snapshot(data[:index])


def test_wrong_lengths_under_a_right_checksum():
    import struct

    from crc32c import crc32c

    def seal(body: bytes) -> bytes:
        return struct.pack(">4shI", b"HWGS", 1, crc32c(body)) + body

    head = struct.pack(">iqq", 1, 2, 1)
    for payload in (b"", b"\0\0\0\5abc", b"\xff\xff\xff\xff", bytes(8) + b"more"):
        with pytest.raises(SnapshotError):
            list(decode_snapshot(seal(head + payload)).records())


def test_file_is_replaced_whole(tmp_path):
    store = FileSnapshotStore(tmp_path / "groups")
    assert store.load(3) is None
    store.save(3, b"one")
    store.save(3, b"two")
    store.save(4, b"other")
    assert store.load(3) == b"two"
    names = sorted(path.name for path in (tmp_path / "groups").iterdir())
    assert names == ["3.groupsnapshot", "4.groupsnapshot"]


def test_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    store = FileSnapshotStore(tmp_path)
    store.save(3, b"one")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.save(3, b"two")
    assert store.load(3) == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["3.groupsnapshot"]
