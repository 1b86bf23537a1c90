"""The coordinator's log on a real data plane."""

from types import SimpleNamespace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.coordinator_log import DataPlaneLog, PartitionAwayError
from tests.support.log_batches import make_batch
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


def test_what_is_not_committed_can_be_read_and_waited_for(node, log):
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


def test_who_waited_in_an_epoch_is_not_told_in_the_next(node, log):
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
    """Producers are told REQUEST_TIMED_OUT, which would hide that the coordinator has moved."""
    replica = node.add(lead=False)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(NODE, 2))
    told = append(log, make_batch())
    image_says(replica, leader=leader, epoch=EPOCH + 1, replicas=(NODE, 2))
    assert told == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_what_an_append_would_be_told(node, log):
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
    for question in (log.log_start_offset, log.log_end_offset, log.high_watermark, log.place):
        with pytest.raises(PartitionAwayError, match="NOT_COORDINATOR"):
            question(0)
    with pytest.raises(PartitionAwayError):
        DataPlaneLog(node.plane).read(0, 0, 1)
