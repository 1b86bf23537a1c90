"""Reads at a leader: whole batches below the high watermark, and Kafka's errors otherwise."""

import os
from pathlib import Path

import pytest

from highwater.hop.fetch import READ_COMMITTED
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import iter_batches
from highwater.partition.data_plane.ranges import SegmentRange
from highwater.partition.storage.cleaning.compaction import _empty
from tests.support.log_batches import forget_positions, make_batch
from tests.unit.partition.data_plane.node import EPOCH, Memory, Node, ask, stored
from tests.unit.partition.data_plane.roles import (
    NODE,
    follow,
    follower_fetched,
    image_says,
    lead,
)

OTHER = 2


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def replica(node):
    """Offsets 0 to 5 in three batches of two records."""
    made = node.add()
    for n in range(3):
        node.append(make_batch(timestamps=(1000 + n, 1000 + n), value=b"%d" % n * 20))
    return made


def content(result):
    records = result.records
    if isinstance(records, bytearray):
        return bytes(records)
    return os.pread(records.fd, records.length, records.position)


def sizes(replica):
    return len(stored(replica)) // 3


KINDS = pytest.mark.parametrize(
    ("memory", "kind"), [(Memory(), bytearray), (Memory(replies_scarce=True), SegmentRange),
                         (None, SegmentRange)], ids=["bytes", "scarce", "ranges"],
)  # fmt: skip


@KINDS
@pytest.mark.parametrize(("offset", "first"), [(0, 0), (1, 0), (2, 1), (3, 1), (5, 2)])
def test_the_batch_that_holds_the_offset_comes_first(node, replica, offset, first, memory, kind):
    size = sizes(replica)
    (result,) = node.fetch(ask(offset), memory=memory).results
    assert type(result.records) is kind
    assert (result.next_offset, replica.log.extent.active.pins) == (6, kind is SegmentRange)
    assert content(result) == stored(replica)[first * size :]
    assert result.nbytes == (3 - first) * size
    assert (result.high_watermark, result.last_stable_offset, result.log_start_offset) == (6, 6, 0)
    result.release()


@pytest.mark.parametrize("memory", [Memory(), None], ids=["bytes", "ranges"])
@pytest.mark.parametrize("limit", ["request", "partition"])
def test_whole_batches_up_to_the_limit_but_at_least_one(node, replica, limit, memory):
    size = sizes(replica)
    for asked, expected in ((0, 1), (1, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2)):
        if limit == "request":
            (result,) = node.fetch(ask(0), max_bytes=asked, memory=memory).results
        else:
            (result,) = node.fetch(ask(0, max_bytes=asked), memory=memory).results
        assert result.nbytes == expected * size, asked
        assert (type(result.records) is bytearray) == (memory is not None and asked >= size)
        assert content(result) == stored(replica)[: expected * size]
        result.release()


def test_only_the_first_partition_with_data_may_exceed_the_limit(node, replica):
    node.add(1)
    node.append(make_batch(), partition=1)
    node.add(2)
    fetched = node.fetch(ask(0, 2), ask(0, 0), ask(0, 1), max_bytes=1)
    assert fetched.sizes == [0, sizes(replica), 0]
    for result in fetched.results:
        result.release()


def test_nothing_above_the_high_watermark(node, replica):
    replica.core.high_watermark = 4
    (result,) = node.fetch(ask(0)).results
    assert result.nbytes == 2 * sizes(replica)
    assert (result.high_watermark, result.last_stable_offset) == (4, 4)
    result.release()
    for offset in (4, 5, 6):
        (result,) = node.fetch(ask(offset), max_wait_ms=0).results
        assert (result.error_code, result.nbytes) == (0, 0), "written, though not committed"


def test_only_what_is_below_the_high_watermark_is_read_into_memory(node, replica):
    replica.core.high_watermark = 4
    (result,) = node.fetch(ask(2), memory=Memory()).results
    size = sizes(replica)
    assert result.records == stored(replica)[size : 2 * size]
    assert result.next_offset == 4


def test_the_rest_of_a_large_fetch_is_not_read_into_memory(node, replica):
    """Perhaps not one batch fits into it, and the bytes would be read for nothing."""
    node.add(1)
    for _ in range(3):
        node.append(make_batch(timestamps=(1, 1), value=b"1" * 20), partition=1)
    size = sizes(replica)
    asked = ask(0, max_bytes=size), ask(0, 1, max_bytes=2 * size)
    for max_bytes, kind in ((3 * size, bytearray), (3 * size - 1, SegmentRange)):
        first, second = node.fetch(*asked, max_bytes=max_bytes, memory=Memory()).results
        assert type(first.records) is bytearray
        assert type(second.records) is kind
        second.release()


def test_a_segment_without_records_is_passed_without_another_read(node):
    """Compaction has left only headers there."""
    replica = node.add()
    header = _empty(next(iter_batches(make_batch())).header())
    node.append(make_batch())
    replica.log.roll()
    node.append(make_batch())
    segment = replica.log.extent.all[0]
    Path(segment.file).write_bytes(header)
    segment.size = len(header)
    replica.log.extent.positions.clear()
    (result,) = node.fetch(ask(0), memory=Memory()).results
    assert result.nbytes == len(make_batch())
    assert (int.from_bytes(result.records[:8]), result.next_offset) == (1, 2)


@pytest.mark.parametrize("offset", [-1, 7, 1 << 62])
def test_out_of_range(node, replica, offset):
    assert node.fetch(ask(offset)).codes == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_before_the_log_start(node, replica):
    replica.log.deletion.advance_start(2)
    assert node.fetch(ask(1)).codes == [ErrorCode.OFFSET_OUT_OF_RANGE]
    (result,) = node.fetch(ask(2)).results
    assert (result.error_code, result.log_start_offset) == (0, 2)
    result.release()


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, 0),
        (EPOCH, 0),
        (EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_epochs(node, replica, epoch, code):
    fetched = node.fetch(ask(0, epoch=epoch))
    assert fetched.codes == [code]
    fetched.results[0].release()


def test_not_the_leader(node, replica):
    follow(replica, 3, 9)
    (result,) = node.fetch(ask(0)).results
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.leader, result.leader_epoch) == (3, 9)


def test_no_replica(node):
    assert node.fetch(ask(0, 44)).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_diverging_logs(node, replica):
    lead(replica, EPOCH + 2)
    node.append(make_batch(), epoch=EPOCH + 2)  # Epoch 4 ends at 6, epoch 6 at 7.
    agreed = node.fetch(ask(6, last_epoch=EPOCH)).results[0]
    assert (agreed.diverging_epoch, agreed.nbytes > 0) == (-1, True)
    agreed.release()
    for offset, last_epoch in ((7, EPOCH), (6, EPOCH + 1), (70, EPOCH)):
        (result,) = node.fetch(ask(offset, last_epoch=last_epoch)).results
        assert (result.diverging_epoch, result.diverging_end_offset) == (EPOCH, 6)
        assert result.error_code == 0
        assert result.nbytes == 0


def test_an_unknown_last_fetched_epoch_is_out_of_range(node, replica):
    fetched = node.fetch(ask(6, last_epoch=EPOCH + 1))
    assert fetched.codes == [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert fetched.results[0].diverging_epoch == -1


def test_read_committed_has_a_list_of_aborted_transactions(node, replica):
    for isolation_level, expected in ((0, None), (READ_COMMITTED, [])):
        (result,) = node.fetch(ask(0), isolation_level=isolation_level).results
        assert result.aborted_transactions == expected
        result.release()


def test_a_range_outlives_its_segment(node):
    replica = node.add(segment_bytes=200)
    for n in range(8):
        node.append(make_batch(value=b"%d" % n * 50))
    before = stored(replica)
    (result,) = node.fetch(ask(0)).results
    length = result.nbytes
    replica.log.deletion.advance_start(7)
    assert content(result) == before[:length]
    fd = result.records.fd
    result.release()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


@pytest.fixture
def behind(node):
    """A new leader with offsets 0 to 2 that only knows of high watermark 1."""
    made = node.add(lead=False)
    both = (NODE, OTHER)
    image_says(made, leader=NODE, epoch=EPOCH, replicas=both)
    for n in range(3):
        node.append(make_batch(value=b"%d" % n))
    follower_fetched(made, OTHER, 1)
    image_says(made, leader=OTHER, epoch=EPOCH + 1, replicas=both)
    image_says(made, leader=NODE, epoch=EPOCH + 2, replicas=both)
    assert (made.high_watermark, made.log.log_end_offset) == (1, 3)
    assert not made.core.offsets_available
    return made


def behind_too(node, partition):
    """The same for another partition."""
    made = node.add(partition, lead=False)
    both = (NODE, OTHER)
    image_says(made, leader=NODE, epoch=EPOCH, replicas=both)
    for n in range(3):
        node.append(make_batch(value=b"%d" % n), partition=partition)
    follower_fetched(made, OTHER, 1)
    image_says(made, leader=OTHER, epoch=EPOCH + 1, replicas=both)
    image_says(made, leader=NODE, epoch=EPOCH + 2, replicas=both)
    return made


def failing_read(*_, **__):
    raise OSError("broken")


def test_a_new_leaders_high_watermark_is_hidden_until_it_has_caught_up(node, behind):
    """A client at offset 3 has seen high watermark 3, and a client at 1 may have."""
    at_end, at_one = node.fetch(ask(3)), node.fetch(ask(1))
    assert (at_end.answers, at_one.answers) == (0, 0), "they wait"
    follower_fetched(behind, OTHER, 2)
    node.turn()
    assert (at_end.answers, at_one.answers) == (0, 0)
    follower_fetched(behind, OTHER, 3)
    node.turn()
    (result,) = at_one.results
    assert (result.error_code, result.high_watermark) == (0, 3)
    assert result.nbytes == len(stored(behind)) // 3 * 2
    result.release()
    assert at_end.answers == 0, "there is nothing new for it"
    node.timers[0].callback()
    (result,) = at_end.results
    assert (result.error_code, result.high_watermark, result.nbytes) == (0, 3, 0)
    assert node.plane.waiting_fetches == 0


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_at_the_end_of_the_wait_offsets_are_not_available(node, behind, offset):
    fetched = node.fetch(ask(offset))
    node.timers[0].callback()
    assert fetched.codes == [ErrorCode.OFFSET_NOT_AVAILABLE]
    assert fetched.results[0].high_watermark == -1
    assert node.fetch(ask(offset), max_wait_ms=0).codes == [ErrorCode.OFFSET_NOT_AVAILABLE]


def test_committed_records_are_read_while_the_high_watermark_catches_up(node, behind):
    node.add(1)
    node.append(make_batch(), partition=1)
    fetched = node.fetch(ask(0), ask(0, 1))
    assert fetched.codes == [0, 0]
    assert [result.high_watermark for result in fetched.results] == [1, 1]
    assert all(fetched.sizes)
    other = node.fetch(ask(3), ask(0, 1))
    assert other.codes == [ErrorCode.OFFSET_NOT_AVAILABLE, 0], "nobody waits for its neighbour"
    for result in (*fetched.results, *other.results):
        result.release()


def test_a_fetch_still_waits_for_min_bytes_after_the_catch_up(node, behind):
    size = len(stored(behind)) // 3
    fetched = node.fetch(ask(1), min_bytes=3 * size)
    follower_fetched(behind, OTHER, 3)
    node.turn()
    assert fetched.answers == 0
    node.append(make_batch(value=b"3"), epoch=EPOCH + 2)
    follower_fetched(behind, OTHER, 4)
    assert fetched.sizes == [3 * size]
    fetched.results[0].release()


def test_partitions_that_catch_up_in_one_turn_are_read_once(node, behind):
    size = len(stored(behind)) // 3
    second = behind_too(node, 1)
    fetched = node.fetch(ask(1), ask(1, 1))
    follower_fetched(behind, OTHER, 3)
    follower_fetched(second, OTHER, 3)
    assert [timer.seconds for timer in node.timers] == [0.5, 0]
    assert fetched.answers == 0
    node.turn()
    assert (fetched.answers, fetched.sizes) == (1, [2 * size, 2 * size])
    node.turn()
    assert (fetched.answers, node.plane.waiting_fetches) == (1, 0)
    for result in fetched.results:
        result.release()


def test_a_cancelled_fetch_is_not_read_after_the_catch_up(node, behind):
    fetched = node.fetch(ask(1))
    follower_fetched(behind, OTHER, 3)
    node.plane.cancel_fetch(fetched.work)
    node.turn()
    assert (fetched.answers, node.plane.waiting_fetches) == (0, 0)


def test_a_read_after_the_catch_up_that_fails_answers_once(node, behind):
    """The failing replica answers all fetches that wait there, and this one is among them."""
    second = behind_too(node, 1)
    fetched = node.fetch(ask(1), ask(2, 1))
    others = [node.fetch(ask(3)), node.fetch(ask(3, 1), min_bytes=1000)]
    follower_fetched(behind, OTHER, 3)
    follower_fetched(second, OTHER, 3)
    second.log._place.environment.filesystem.pread = failing_read
    forget_positions(second.log)
    assert fetched.answers == 0
    node.turn()
    assert fetched.answers == 1
    assert fetched.codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert others[1].codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert (others[0].answers, node.plane.waiting_fetches) == (0, 1)
    segment = behind.log.extent.active
    for result in fetched.results:
        result.release()
    assert segment.pins == 0
