"""What coordinators on the node may write that clients may not."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.transactions import TransactionMarker
from highwater.partition.data_plane import replica
from highwater.partition.data_plane.node_group import MarkerGroup, NodeGroup, marker_batch
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.refusals import verdict_on
from tests.support.log_batches import make_batch
from tests.support.transactional_logs import indexed
from tests.unit.hop.sinks import TOPIC, Owner
from tests.unit.partition.data_plane.node import EPOCH, Node, stored
from tests.unit.partition.data_plane.test_replica_stalled import SlowDisk

MARKER = TransactionMarker(
    producer_id=7, producer_epoch=0, committed=False, coordinator_epoch=1, transaction_version=0
)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def offsets_of_a_group():
    return make_batch(producer_id=7, producer_epoch=0, transactional=True)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_batch_with_a_producer_and_no_sequence(node, compacted):
    added = node.add(compact=compacted, policy=AppendPolicy(compacted=compacted))
    heard = []
    for _ in range(2):
        group = NodeGroup(TOPIC, 0, EPOCH, Owner(lambda *result: heard.append(result)))
        group.batches.append(memoryview(offsets_of_a_group()))
        node.plane.append([group])
    assert heard == [([0], None), ([1], None)]
    assert added.transactions.open == {7: 0}
    assert node.append(offsets_of_a_group()).codes == {0: ErrorCode.INVALID_RECORD}


@pytest.mark.parametrize("transactional", [False, True])
def test_only_the_header_of_its_own_batch_is_looked_at(node, monkeypatch, transactional):
    """Its records were made here: with keys, which a compacted topic wants."""
    walked = []

    def verdict(batch, *_arguments, from_client):
        walked.append(from_client)
        return verdict_on(batch, *_arguments, from_client=from_client)

    monkeypatch.setattr(replica, "verdict_on", verdict)
    node.add(compact=True, policy=AppendPolicy(compacted=True))
    heard = []
    group = NodeGroup(TOPIC, 0, EPOCH, Owner(lambda *result: heard.append(result)))
    group.batches.append(memoryview(offsets_of_a_group() if transactional else make_batch()))
    node.plane.append([group])
    assert heard == [([0], None)]
    assert walked == []
    node.append(make_batch())
    assert walked == [True]


def test_its_own_batch_is_refused_if_it_was_damaged_in_memory(node):
    node.add(compact=True, policy=AppendPolicy(compacted=True))
    heard = []
    group = NodeGroup(TOPIC, 0, EPOCH, Owner(lambda *result: heard.append(result)))
    group.batches.append(memoryview(make_batch()[:-1] + b"?"))
    node.plane.append([group])
    [(offsets, failures)] = heard
    assert offsets == [-1]
    assert failures[0].error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_marker_has_as_many_bytes_as_its_group_says():
    group = MarkerGroup(TOPIC, 0, EPOCH, Owner(), [MARKER])
    assert len(marker_batch(MARKER, 5, EPOCH, 1_700_000_000_000)) == group.nbytes
    assert len(group.batches) == 1


def test_a_marker_waits_behind_appends_for_a_slow_disk(tmp_path):
    node, disk = Node(tmp_path), SlowDisk()
    added = node.add(environment=disk)
    heard = []
    group = NodeGroup(TOPIC, 0, EPOCH, Owner(lambda *result: heard.append(result)))
    group.batches.append(memoryview(offsets_of_a_group()))
    group.nbytes = len(group.batches[0])
    node.plane.append([group])
    node.plane.append_marker(
        MarkerGroup(TOPIC, 0, EPOCH, Owner(lambda *result: heard.append(result)), [MARKER])
    )
    assert heard == []
    disk.finish()
    assert list(tmp_path.rglob("*.txnindex")) == [], "only the writer thread waits for the disk"
    disk.finish()
    assert heard == [([0], None), ([1], None)]
    assert added.transactions.open == {}
    [aborted] = indexed(added.log)[-1]
    assert (aborted.first_offset, aborted.last_offset) == (0, 1)
    assert added.log.transactions.aborted(0, 2) == [(aborted.producer_id, 0)]


@pytest.mark.parametrize(
    "policy", [AppendPolicy(compacted=True), AppendPolicy(log_append_time=True)]
)
@pytest.mark.parametrize("transactional", [False, True])
def test_a_built_batch_is_stored_as_any_other(node, tmp_path, policy, transactional):
    """Also one that has to be looked at: of a producer, or with another time."""
    (tmp_path / "other").mkdir()
    other = Node(tmp_path / "other")
    other.clock.now_ms = node.clock.now_ms
    heard = []
    replicas = [one.add(policy=policy) for one in (node, other)]
    for one, append in (
        (node, node.plane.append_built),
        (other, lambda group: other.plane.append([group])),
    ):
        for _ in range(2):
            group = NodeGroup(TOPIC, 0, EPOCH, Owner(lambda *result: heard.append(result)))
            group.batches.append(
                memoryview(
                    offsets_of_a_group() if transactional else make_batch(timestamps=(1, 2, 3))
                )
            )
            group.nbytes = len(group.batches[0])
            append(group)
        assert one.plane.appended_bytes == 2 * group.nbytes
    assert heard[:2] == heard[2:]
    assert stored(replicas[0]) == stored(replicas[1])
    built, usual = (replica.log for replica in replicas)
    assert built.log_end_offset == usual.log_end_offset
    times = [one.extent.all[-1].max_timestamp for one in (built, usual)]
    assert times[0] == times[1]


def test_a_built_batch_that_cannot_be_appended(node):
    heard = []

    def built(epoch=EPOCH):
        group = NodeGroup(TOPIC, 0, epoch, Owner(lambda *result: heard.append(result)))
        group.batches.append(memoryview(make_batch()))
        group.nbytes = len(group.batches[0])
        node.plane.append_built(group)
        ((_, failures),) = heard
        heard.clear()
        return failures[0].error_code

    assert built() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    added = node.add(policy=AppendPolicy(message_bytes_max=10))
    assert built() == ErrorCode.MESSAGE_TOO_LARGE
    assert built(EPOCH - 1) == ErrorCode.FENCED_LEADER_EPOCH or added.log.log_end_offset == 0
