"""The coordinator's log on a real data plane."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import ATTRIBUTES_AT, HEADER_SIZE, MAGIC_AT
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.coordinator.coordinator_log import DataPlaneLog, PartitionAwayError
from highwater.partition.storage.errors import (
    CorruptLogError,
    DamagedBatchError,
    DamagedHeaderError,
    DamageFoundError,
    LogDirFailure,
    OffsetOutOfRange,
)
from tests.support.log_batches import forget_positions, make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Node, stored
from tests.unit.partition.data_plane.roles import NODE, follow, follower_fetched, image_says, lead


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def log(node):
    made = DataPlaneLog(node.plane)
    made.topic = SimpleNamespace(topic_id=TOPIC, instance=DEFAULT_INSTANCE)
    return made


def append(log, batch, epoch=EPOCH):
    told = []
    log.append(0, epoch, bytes(batch), lambda code, offset: told.append((code, offset)))
    return told


def test_appended_records_can_be_read(node, log):
    replica = node.add()
    assert append(log, make_batch()) == [(0, 0)]
    assert append(log, make_batch(timestamps=(1, 2))) == [(0, 1)]
    assert (log.log_start_offset(0), log.log_end_offset(0)) == (0, 3)
    whole = stored(replica)
    assert log.read(0, 0, 1 << 20) == whole
    assert log.read(0, 2, 1 << 20) == whole[len(make_batch()) :]
    assert log.read(0, 0, 1) == whole[: len(make_batch())], "at least one batch"
    assert log.read(0, 3, 1 << 20) == b""


def test_uncommitted_records_can_be_read_and_awaited(node, log):
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    told, heard = append(log, make_batch(timestamps=(1, 2))), []
    assert (told, log.high_watermark(0), log.log_end_offset(0)) == ([], 0, 2)
    assert log.read(0, 0, 1 << 20) == stored(replica)
    log.when_committed(0, 0, lambda: heard.append("nothing"))
    log.when_committed(0, 1, lambda: heard.append("replaced by the next one"))
    log.when_committed(0, 2, lambda: heard.append("all"))
    assert heard == ["nothing"]
    follower_fetched(replica, 2, 1)
    assert heard == ["nothing"]
    follower_fetched(replica, 2, 2)
    assert (told, heard) == ([(0, 0)], ["nothing", "all"])
    assert replica.listeners == ()
    log.when_committed(0, 3, lambda: heard.append("more"))
    follow(replica, 2, EPOCH + 1)
    assert replica.listeners == (), "nobody waits at a follower"
    assert len(heard) == 2


def test_a_wait_for_the_high_watermark_ends_with_its_epoch(node, log):
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    append(log, make_batch())
    heard = []
    log.when_committed(0, 1, lambda: heard.append("all"))
    image_says(replica, leader=NODE, epoch=EPOCH + 1, replicas=(NODE, 2))
    follower_fetched(replica, 2, 1)
    assert (log.high_watermark(0), heard, replica.listeners) == (1, [], ())


@pytest.mark.parametrize("leader", [2, NODE])
def test_end_of_a_leadership_is_not_a_time_out(node, log, leader):
    """Producers get REQUEST_TIMED_OUT, which would hide that the coordinator has moved."""
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    told = append(log, make_batch())
    image_says(replica, leader=leader, epoch=EPOCH + 1, replicas=(NODE, 2))
    assert told == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_refusal_gives_the_error_of_an_append(node, log):
    assert log.refusal(0, EPOCH) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica = node.add()
    assert log.refusal(0, EPOCH) == 0
    assert log.refusal(0, EPOCH + 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    two = (NODE, 2)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=two, isr=(NODE,), min_isr=2)
    assert log.refusal(0, EPOCH) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert append(log, make_batch()) == [(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]
    follow(replica, 2, EPOCH + 1)
    assert log.refusal(0, EPOCH) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    replica.fail()
    assert log.refusal(0, EPOCH) == ErrorCode.KAFKA_STORAGE_ERROR


def test_epochs_of_records(node, log):
    assert log.epoch_before(0, 1) == -1, "it is not here"
    replica = node.add()
    append(log, make_batch())
    lead(replica, EPOCH + 3)
    append(log, make_batch(timestamps=(1, 2)), EPOCH + 3)
    assert [log.epoch_before(0, n) for n in range(5)] == [-1, EPOCH, EPOCH + 3, EPOCH + 3, -1]


def test_refused_appends_get_error_codes(node, log):
    assert append(log, make_batch()) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    node.add()
    assert append(log, make_batch(), EPOCH + 1) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_where_the_log_is(node, log):
    replica = node.add()
    place = log.place(0)
    assert (place.topic_id, place.partition) == (TOPIC, 0)
    assert place.directory == replica.log.directory


def test_a_partition_that_is_not_on_the_node(node, log):
    for question in (log.log_start_offset, log.log_end_offset, log.high_watermark, log.place):
        with pytest.raises(PartitionAwayError, match="NOT_COORDINATOR"):
            question(0)
    with pytest.raises(PartitionAwayError):
        DataPlaneLog(node.plane).read(0, 0, 1)


@pytest.fixture
def damage(node):
    """Damage reported to the service; no other replica has the records."""
    told = []

    def on_damage(replica, error):
        told.append(error)
        return isinstance(error, DamageFoundError)

    node.plane._on_damage = on_damage
    return told


def flip(replica, batch, at):
    """Changes a byte of one of three equal batches."""
    segment = replica.log.extent.all[0]
    with Path(segment.file).open("r+b") as file:
        file.seek(batch * segment.size // 3 + at)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0xFF]))
    forget_positions(replica.log)


def three_batches(node, log, *, closed):
    replica = node.add()
    for _ in range(3):
        append(log, make_batch())
    if closed:
        replica.log.roll()
        append(log, make_batch())
    return replica


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_an_unreadable_log_is_reported(node, log, damage, again, closed):
    replica = three_batches(node, log, closed=closed)
    flip(replica, 1, MAGIC_AT)
    with pytest.raises(DamagedHeaderError):
        log.recheck(0, 1) if again else log.read(0, 1, 1 << 20)
    assert [(error.first, error.end) for error in damage] == [(1, 3 if closed else -1)]
    assert not replica.failed, "what is lost has been noted"


def test_recheck_finds_a_damaged_header_that_a_read_missed(node, log, damage):
    replica = three_batches(node, log, closed=False)
    flip(replica, 2, MAGIC_AT)
    assert log.read(0, 0, 1 << 20) == stored(replica), "where the second one ends is not looked at"
    assert damage == []
    with pytest.raises(DamagedHeaderError):
        log.recheck(0, 2)
    assert [error.first for error in damage] == [2]


def test_a_log_with_an_unknown_damaged_range_fails(node, log, damage, monkeypatch):
    replica = three_batches(node, log, closed=False)

    def read(*_place, **_limits):
        raise CorruptLogError("what is this?")

    monkeypatch.setattr(type(replica.log.reader), "read", read)
    with pytest.raises(CorruptLogError):
        log.read(0, 0, 1 << 20)
    assert replica.failed
    assert len(node.bugs) == len(damage) == 1


@pytest.mark.parametrize("closed", [False, True])
def test_a_batch_with_a_wrong_checksum_is_reported(node, log, damage, closed):
    replica = three_batches(node, log, closed=closed)
    flip(replica, 1, HEADER_SIZE + 3)
    log.recheck(0, 0)
    assert damage == [], "the one before is sound"
    with pytest.raises(DamagedBatchError):
        log.recheck(0, 1)
    ((first, end, file),) = [(error.first, error.end, error.file) for error in damage]
    assert (first, end, file) == (1, 2, replica.log.extent.all[0].path)


@pytest.mark.parametrize("closed", [False, True])
def test_a_batch_that_overlaps_the_next_is_reported(node, log, damage, closed):
    """Its last offset delta has changed, so that it seems to overlap the next batch."""
    replica = three_batches(node, log, closed=closed)
    flip(replica, 1, ATTRIBUTES_AT + 5)
    log.recheck(0, 0)
    assert damage == [], "the one before is sound"
    with pytest.raises(DamagedHeaderError):
        log.recheck(0, 1)
    ((first, end, file),) = [(error.first, error.end, error.file) for error in damage]
    assert (first, file) == (1, replica.log.extent.all[0].path)
    assert end == (replica.log.extent.all[1].base_offset if closed else -1), (
        "the rest of its segment"
    )


def test_a_batch_longer_than_its_segment_is_reported(node, log, damage):
    replica = three_batches(node, log, closed=False)
    flip(replica, 2, 9)
    with pytest.raises(CorruptLogError):
        log.recheck(0, 2)
    assert [error.first for error in damage] == [2]


def test_an_io_error_takes_the_directory_offline(node, log, monkeypatch):
    replica = three_batches(node, log, closed=False)

    def pread(*_place):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("highwater.partition.coordinator.coordinator_log.os.pread", pread)
    with pytest.raises(LogDirFailure):
        log.read(0, 0, 1 << 20)
    assert len(node.log_failures) == 1
    assert replica.failed
    with pytest.raises(PartitionAwayError):
        log.read(0, 0, 1 << 20)
    log.recheck(0, 0)
    assert len(node.log_failures) == 1, "nobody reads it any more"


def test_a_deleted_offset_is_no_damage(node, log, damage):
    replica = three_batches(node, log, closed=True)
    replica.log.deletion.advance_start(3)
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 0, 1 << 20)
    assert (damage, replica.failed) == ([], False)
