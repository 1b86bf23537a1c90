"""Transactions at a leader: what is accepted, and what a read_committed consumer gets when."""

import asyncio

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.fetch import READ_COMMITTED
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import HEADER_SIZE, iter_batches, read_header
from highwater.kafka.records.control import read_end_marker
from highwater.partition.data_plane.offsets import LATEST, OffsetQueries
from highwater.partition.data_plane.policy import AppendPolicy
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Memory, Node, ask, stored
from tests.unit.partition.data_plane.roles import follow, follower_fetched, image_says, lead
from tests.unit.partition.data_plane.transactions import Producer

OTHER = 2


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def replica(node):
    return node.add()


@pytest.fixture
def followed(node):
    """A leader with a follower in the ISR, which has nothing yet."""
    made = node.add()
    image_says(made, leader=1, epoch=EPOCH, replicas=(1, OTHER), isr=(1, OTHER))
    return made


def committed(node, offset=0, **spec):
    """(offsets read, aborted transactions, LSO) at read_committed, without a wait."""
    spec = {"max_wait_ms": 0, "isolation_level": READ_COMMITTED, "memory": Memory(), **spec}
    (result,) = node.fetch(ask(offset), **spec).results
    assert result.error_code == 0
    found = [
        offset
        for batch in iter_batches(bytes(result.records))
        for offset in range(batch.base_offset, batch.last_offset + 1)
    ]
    return found, result.aborted_transactions, result.last_stable_offset


def latest(node, isolation_level):
    queries = OffsetQueries(node.plane, lambda *_: None)
    asked = pb.ListOffsetsPartition(
        topic_id=TOPIC, partition=0, current_leader_epoch=-1, timestamp=LATEST
    )
    request = pb.ListOffsetsRequest(isolation_level=isolation_level, partitions=[asked])
    return asyncio.run(queries.list_offsets(request)).results[0].offset


# ---- appends ----


def test_a_transaction_that_nobody_has_verified_is_refused(node, replica):
    producer = Producer(node)
    assert producer.write(known=False).codes == {0: ErrorCode.INVALID_TXN_STATE}
    assert replica.log.log_end_offset == 0
    assert producer.write().codes == {0: 0}
    assert producer.write(known=False).codes == {0: 0}, "it is open here"
    assert producer.end(commit=True) == [0]
    assert producer.write(known=False).codes == {0: ErrorCode.INVALID_TXN_STATE}


def test_batches_of_a_transaction_without_its_id_are_refused(node, replica):
    producer = Producer(node)
    producer.write()
    batch = make_batch(
        timestamps=(node.clock.now_ms,),
        producer_id=producer.producer_id,
        producer_epoch=0,
        base_sequence=1,
        transactional=True,
    )
    refused = {0: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert node.append(batch).codes == refused, "although the transaction is open"
    assert replica.log.log_end_offset == 1


def test_ordinary_batches_of_a_producer_in_a_transaction_are_refused(node, replica):
    producer = Producer(node)
    producer.write()
    assert producer.write(transactional=False).codes == {0: ErrorCode.INVALID_TXN_STATE}
    producer.end(commit=False)
    assert producer.write(transactional=False).codes == {0: 0}


@pytest.mark.parametrize("stamped", [False, True])
def test_a_marker_in_the_log(node, stamped):
    replica = node.add(policy=AppendPolicy(log_append_time=stamped))
    assert Producer(node, epoch=3).end(commit=True, coordinator_epoch=9) == [0]
    data = stored(replica)
    header = read_header(data)
    assert (header.base_offset, header.leader_epoch, header.record_count) == (0, EPOCH, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert header.attributes == (0x38 if stamped else 0x30)
    assert header.max_timestamp == node.clock.now_ms
    assert next(iter_batches(data)).crc_ok()
    assert read_end_marker(data[HEADER_SIZE:], 1) == (True, 9)


def test_markers_that_are_refused(node, replica):
    producer = Producer(node, epoch=4)
    producer.write()
    assert producer.end(commit=True, epoch=3) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert producer.end(commit=True, version=2) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert producer.end(commit=True, epoch=5, version=2, coordinator_epoch=8) == [0]
    fenced = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert producer.end(commit=True, epoch=5, version=2, coordinator_epoch=7) == fenced
    assert producer.end(commit=True, leader_epoch=EPOCH - 1) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert replica.log.log_end_offset == 2


def test_a_marker_waits_for_its_commit_and_may_lose_its_leader(node, followed):
    producer = Producer(node)
    producer.write()
    answers = producer.end(commit=True)
    follower_fetched(followed, OTHER, 1)
    assert answers == []
    follower_fetched(followed, OTHER, 2)
    assert answers == [0]
    lost = producer.end(commit=True)
    follow(followed, OTHER, EPOCH + 1)
    assert lost == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_too_small_an_isr(node):
    replica = node.add(lead=False)
    image_says(replica, leader=1, epoch=EPOCH, replicas=(1, OTHER), isr=(1,), min_isr=2)
    assert Producer(node).end(commit=True) == [ErrorCode.NOT_ENOUGH_REPLICAS]


# ---- reads ----


def test_read_committed_ends_at_the_last_stable_offset(node, replica):
    first, second = Producer(node, 7), Producer(node, 8)
    node.append(make_batch(timestamps=(node.clock.now_ms,)))
    first.write(records=2)
    second.write()
    second.end(commit=True)
    assert committed(node) == ([0], [], 1)
    assert committed(node, 1) == ([], [], 1)
    assert latest(node, READ_COMMITTED) == 1
    assert latest(node, 0) == 5
    (plain,) = node.fetch(ask(0), memory=Memory()).results
    assert (plain.last_stable_offset, plain.high_watermark) == (1, 5)
    assert plain.aborted_transactions is None
    first.end(commit=False)
    assert committed(node) == ([0, 1, 2, 3, 4, 5], [(7, 1)], 6)
    assert committed(node, 5) == ([5], [(7, 1)], 6)


def test_a_marker_that_is_not_committed_ends_nothing_yet(node, followed):
    producer = Producer(node)
    producer.write()
    producer.end(commit=True)
    follower_fetched(followed, OTHER, 1)
    assert committed(node) == ([], [], 0)
    assert followed.high_watermark == 1
    follower_fetched(followed, OTHER, 2)
    assert committed(node) == ([0, 1], [], 2)


def test_records_that_were_deleted_are_stable(node, replica):
    producer = Producer(node)
    producer.write()
    node.append(make_batch())
    assert replica.delete_records(1) == (0, 1)
    assert committed(node, 1) == ([], [], 1)


def test_a_new_leader_does_not_guess(node, replica):
    producer = Producer(node)
    producer.write()
    producer.end(commit=True)
    replica.transactions.loaded(2)
    replica.core.high_watermark = 1
    fetched = node.fetch(ask(0), max_wait_ms=0, isolation_level=READ_COMMITTED)
    assert fetched.codes == [ErrorCode.OFFSET_NOT_AVAILABLE]
    assert node.fetch(ask(0), memory=Memory()).codes == [0]
    replica.core.high_watermark = 2
    assert committed(node) == ([0, 1], [], 2)


# ---- waits ----


def test_a_wait_ends_when_the_stable_offset_moves_and_not_before(node, replica):
    producer = Producer(node)
    producer.write()
    waiting = node.fetch(ask(0), isolation_level=READ_COMMITTED, memory=Memory())
    plain = node.fetch(ask(1), memory=Memory())
    producer.write()
    node.append(make_batch())
    node.turn()
    assert (waiting.answers, plain.answers) == (0, 1)
    producer.end(commit=True)
    node.turn()
    (result,) = waiting.results
    assert result.nbytes > 0
    assert result.last_stable_offset == 4


def test_a_wait_goes_on_while_too_little_is_stable(node, replica):
    first, second = Producer(node, 7), Producer(node, 8)
    first.write()
    second.write()
    size = len(stored(replica)) // 2
    waiting = node.fetch(
        ask(0), isolation_level=READ_COMMITTED, min_bytes=size + 1, memory=Memory()
    )
    first.end(commit=True)
    node.turn()
    assert waiting.answers == 0, "one batch is stable, and that is not enough"
    second.end(commit=True)
    node.turn()
    assert [result.next_offset for result in waiting.results] == [4]


def test_a_wait_for_a_commit(node, followed):
    producer = Producer(node)
    producer.write()
    producer.end(commit=True)
    waiting = node.fetch(ask(0), isolation_level=READ_COMMITTED, memory=Memory())
    follower_fetched(followed, OTHER, 1)
    node.turn()
    assert waiting.answers == 0
    follower_fetched(followed, OTHER, 2)
    node.turn()
    assert waiting.answers == 1


def test_without_transactions_both_wait_for_bytes(node, replica):
    waits = [node.fetch(ask(0), isolation_level=level) for level in (0, READ_COMMITTED)]
    node.append(make_batch())
    assert [wait.answers for wait in waits] == [1, 1]


def test_unstable_records_behind_an_answer_are_not_more(node, replica):
    producer = Producer(node)
    node.append(make_batch())
    producer.write()
    waiting = node.fetch(ask(0), isolation_level=READ_COMMITTED, min_bytes=1 << 16, memory=Memory())
    assert waiting.answers == 0


def test_a_leader_that_comes_back(node, replica):
    producer = Producer(node)
    producer.write()
    producer.end(commit=False)
    follow(replica, OTHER, EPOCH + 1)
    replica.log.truncate_to(1)
    replica.core.log_end_offset = replica.core.counted_end_offset = 1
    replica.core.high_watermark = 1
    lead(replica, EPOCH + 2)
    assert committed(node) == ([], [], 0)
    assert producer.end(commit=False, leader_epoch=EPOCH + 2) == [0]
    assert committed(node) == ([0, 1], [(7, 0)], 2)


# ---- producers that the log has forgotten ----

EXPIRED_MS = 25 * 3_600_000


def forgotten(node, tmp_path, *, clean=False):
    """An aborted transaction in the offsets 0 to 2, whose producer is silent until it has expired; then
    the node starts again. The new node, and its replica, which nobody has given a role.
    """
    replica = node.plane.replicas[TOPIC, 0]
    producer = Producer(node)
    producer.write(records=2)
    producer.end(commit=False)
    replica.log.roll()
    node.append(make_batch(timestamps=(node.clock.now_ms,)))
    replica.log.close(clean=clean)
    again = Node(tmp_path)
    again.clock.now_ms = node.clock.now_ms + EXPIRED_MS
    return again, again.add(lead=False, clean=clean)


@pytest.mark.parametrize("clean", [False, True])
def test_a_start_after_the_producer_has_expired_hides_its_aborted_records(
    node, replica, tmp_path, clean
):
    again, opened = forgotten(node, tmp_path, clean=clean)
    lead(opened, EPOCH)
    opened.transactions.commit_to(4)
    assert list(opened.log.producers.expire()) == [1]
    assert committed(again) == ([0, 1, 2], [(7, 0)], 4)
    assert committed(again, 3) == ([3], [], 4)


def test_a_follower_with_expired_producers_hides_aborted_records(node, replica, tmp_path):
    _, opened = forgotten(node, tmp_path)
    follow(opened, OTHER, EPOCH)
    opened.core.high_watermark = 4
    found = opened.fetch(ask(0), 1 << 20, READ_COMMITTED, True, 1 << 20, follower_may=True)
    assert (found.error_code, found.aborted_transactions) == (0, [(7, 0)])


def test_a_truncation_that_forgets_producers_hides_aborted_records(node, replica, tmp_path):
    again, opened = forgotten(node, tmp_path)
    opened.log.truncate_to(3)
    opened.core.log_end_offset = opened.core.counted_end_offset = 3
    lead(opened, EPOCH)
    assert committed(again) == ([0, 1, 2], [(7, 0)], 3)


def test_without_aborted_transactions_a_start_notes_none(node, replica, tmp_path):
    node.append(make_batch())
    replica.log.close(clean=False)
    opened = Node(tmp_path).add()
    assert not opened.transactions.seen
