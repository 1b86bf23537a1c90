"""The coordinator's log on a real data plane."""

from types import SimpleNamespace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.coordinator_log import DataPlaneLog, PartitionAwayError
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Node, stored


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


def test_what_is_appended_can_be_read(node, log):
    replica = node.add()
    assert append(log, make_batch()) == [(0, 0)]
    assert append(log, make_batch(timestamps=(1, 2))) == [(0, 1)]
    assert (log.log_start_offset(0), log.log_end_offset(0)) == (0, 3)
    whole = stored(replica)
    assert log.read(0, 0, 1 << 20) == whole
    assert log.read(0, 2, 1 << 20) == whole[len(make_batch()) :]
    assert log.read(0, 0, 1) == whole[: len(make_batch())], "at least one batch"
    assert log.read(0, 3, 1 << 20) == b""
    replica.high_watermark = 1
    assert log.read(0, 0, 1 << 20) == whole[: len(make_batch())]
    assert log.read(0, 1, 1 << 20) == b""


def test_refusals_are_told_as_codes(node, log):
    assert append(log, make_batch()) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    node.add()
    assert append(log, make_batch(), EPOCH + 1) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_where_the_log_is(node, log):
    replica = node.add()
    place = log.place(0)
    assert (place.topic_id, place.partition) == (TOPIC, 0)
    assert place.directory == replica.log.directory


def test_a_partition_that_is_not_here(node, log):
    for question in (log.log_start_offset, log.log_end_offset, log.place):
        with pytest.raises(PartitionAwayError, match="NOT_COORDINATOR"):
            question(0)
    with pytest.raises(PartitionAwayError):
        DataPlaneLog(node.plane).read(0, 0, 1)
