"""The markers of several transactions as one append of a leader."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import iter_batches
from highwater.model.transactions import AwaitedMarker, TransactionMarker
from highwater.partition.data_plane.marker_run import MarkerRun
from highwater.partition.data_plane.markers import MarkerWriter
from highwater.partition.data_plane.node_group import MarkerGroup
from highwater.partition.data_plane.policy import AppendPolicy
from tests.support.transactional_logs import indexed
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.transactions import Producer


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def marker(producer_id, *, commits=True, producer_epoch=0):
    return TransactionMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        committed=commits,
        coordinator_epoch=0,
        transaction_version=0,
    )


def write(node, *markers):
    """The answers, each with the place of its marker."""
    answers = []
    awaited = [
        AwaitedMarker(each, lambda code, place=place: answers.append((place, code)))
        for place, each in enumerate(markers)
    ]
    MarkerWriter(node.plane, TOPIC).write_markers(0, EPOCH, awaited)
    return answers


def writes_counted(replica, monkeypatch):
    """A list with an entry for each write to the replica's log."""
    writes = []
    append = type(replica.log.writer).append

    def counted(writer, info):
        writes.append(list(info.base_offsets))
        append(writer, info)

    monkeypatch.setattr(type(replica.log.writer), "append", counted)
    return writes


def test_transactions_that_commit_end_with_one_write(node, monkeypatch):
    replica = node.add()
    for producer_id in (7, 8, 9):
        Producer(node, producer_id).write()
    writes = writes_counted(replica, monkeypatch)
    assert write(node, marker(7), marker(8), marker(9)) == [(0, 0), (1, 0), (2, 0)]
    assert writes == [[3, 4, 5]]
    assert replica.transactions.open == {}
    assert replica.log.log_end_offset == replica.last_stable_offset() == 6


def test_a_refused_marker_does_not_keep_others_from_the_log(node):
    replica = node.add()
    Producer(node, 7).write()
    Producer(node, 8, epoch=5).write()
    Producer(node, 9).write()
    answers = write(node, marker(7), marker(8, producer_epoch=4), marker(9))
    assert answers == [(0, 0), (1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, 0)]
    assert list(replica.transactions.open) == [8]
    assert replica.log.log_end_offset == 5


def test_nothing_is_written_if_all_are_refused(node, monkeypatch):
    replica = node.add()
    Producer(node, 8, epoch=5).write()
    writes = writes_counted(replica, monkeypatch)
    refused = ErrorCode.INVALID_PRODUCER_EPOCH
    old = marker(8, producer_epoch=4)
    assert write(node, old, old) == [(0, refused), (1, refused)]
    assert writes == []


def test_each_aborted_transaction_is_told_with_its_own_marker(node, monkeypatch):
    replica = node.add()
    for producer_id in (7, 8, 9):
        Producer(node, producer_id).write()
    writes = writes_counted(replica, monkeypatch)
    answers = write(node, marker(7, commits=False), marker(8), marker(9, commits=False))
    assert answers == [(0, 0), (1, 0), (2, 0)]
    assert writes == [[3], [4], [5]]
    aborted = indexed(replica.log)[-1]
    assert [(one.producer_id, one.first_offset, one.last_offset) for one in aborted] == [
        (7, 0, 3),
        (9, 2, 5),
    ]


def test_a_group_with_an_abort_has_no_other_marker():
    with pytest.raises(AssertionError):
        MarkerGroup(TOPIC, 0, EPOCH, None, [marker(7), marker(8, commits=False)])


@pytest.mark.parametrize("log_append_time", [False, True])
def test_the_batches_are_sound_and_have_their_offsets(node, log_append_time):
    replica = node.add(policy=AppendPolicy(log_append_time=log_append_time))
    group = MarkerGroup(TOPIC, 0, EPOCH, None, [marker(7), marker(8)])
    run = MarkerRun(group, replica.log.producers.states, 40)
    run.judge(1_700_000_000_000, log_append_time=log_append_time)
    batches = list(iter_batches(b"".join(run.info.buffers)))
    assert [batch.base_offset for batch in batches] == run.base_offsets == [40, 41]
    assert [batch.producer_id for batch in batches] == [7, 8]
    assert all(batch.crc_ok() for batch in batches)
    assert run.info.next_offset == 42
    assert run.info.max_timestamp_offset == 40
    assert run.info.nbytes == group.nbytes == sum(run.info.sizes)
    assert run.failures is None
