"""ListOffsets' special timestamps, and the end offsets of epochs."""

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.storage.errors import CorruptIndexError, CorruptLogError, LogDirFailure
from highwater.partition.storage.log.timestamp_lookup import BatchQuestion
from highwater.partition.storage.log.timestamp_search import TimestampSearch
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Node
from tests.unit.partition.data_plane.roles import follow, lead


@pytest.fixture
def node(tmp_path):
    made = Node(tmp_path)
    replica = made.add()
    made.append(make_batch(timestamps=(1000, 1500)))
    made.append(make_batch(timestamps=(4000, 2000)))
    lead(replica, EPOCH + 2)
    made.append(make_batch(timestamps=(3000,)), epoch=EPOCH + 2)
    return made


@pytest.fixture
def replica(node):
    return node.plane.replicas[TOPIC, 0]


@pytest.fixture
def queries(node):
    return OffsetQueries(node.plane, node._log_failed)


async def offset_of(queries, timestamp, *, partition=0, epoch=-1):
    request = pb.ListOffsetsRequest(
        partitions=[
            pb.ListOffsetsPartition(
                topic_id=TOPIC,
                partition=partition,
                current_leader_epoch=epoch,
                timestamp=timestamp,
            )
        ]
    )
    (result,) = (await queries.list_offsets(request)).results
    return result.error_code, result.timestamp, result.offset, result.leader_epoch


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (0, -1, 5, EPOCH + 2)),
        (-2, (0, -1, 0, EPOCH)),
        (-4, (0, -1, 0, EPOCH)),
        (-3, (0, 4000, 2, EPOCH)),
        (-5, (0, -1, -1, -1)),
        (-6, (0, -1, -1, -1)),
        (0, (0, 1000, 0, EPOCH)),
        (1001, (0, 1500, 1, EPOCH)),
        (1501, (0, 4000, 2, EPOCH)),
        (4001, (0, -1, -1, -1)),
        (-7, (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)),
    ],
)
async def test_timestamps(queries, timestamp, expected):
    assert await offset_of(queries, timestamp) == expected


async def test_nothing_above_the_high_watermark(queries, replica):
    replica.core.high_watermark = replica.core.epoch_start_offset = 2  # Not committed.
    assert await offset_of(queries, -1) == (0, -1, 2, EPOCH + 2)
    assert await offset_of(queries, -3) == (0, -1, -1, -1)
    assert await offset_of(queries, 1501) == (0, -1, -1, -1)
    assert await offset_of(queries, 1001) == (0, 1500, 1, EPOCH)


async def test_an_empty_log(node, queries):
    node.add(1)
    assert await offset_of(queries, -1, partition=1) == (0, -1, 0, EPOCH)
    assert (await offset_of(queries, -2, partition=1))[:3] == (0, -1, 0)
    assert await offset_of(queries, -3, partition=1) == (0, -1, -1, -1)
    assert await offset_of(queries, 0, partition=1) == (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("partition", "epoch", "code"),
    [
        (9, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (0, EPOCH, ErrorCode.FENCED_LEADER_EPOCH),
        (0, EPOCH + 3, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (0, EPOCH + 2, 0),
    ],
)
async def test_errors_of_list_offsets_by_partition_and_epoch(queries, partition, epoch, code):
    assert (await offset_of(queries, -1, partition=partition, epoch=epoch))[0] == code


async def test_a_follower_refuses_list_offsets(queries, replica):
    follow(replica, 2, EPOCH + 3)
    assert await offset_of(queries, -1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)


@pytest.mark.parametrize("error", [LogDirFailure("x", OSError(5, "I/O")), CorruptIndexError("x")])
async def test_storage_errors_are_answered_with_a_code(node, queries, replica, error):
    class Unreadable:
        def first_at_or_after(self, timestamp):
            raise error

    replica.log = SimpleNamespace(search=Unreadable())
    assert await offset_of(queries, 5) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
    assert len(node.log_failures) == isinstance(error, LogDirFailure)


def damage(segment):
    with Path(segment.file).open("r+b") as file:
        file.seek(16)
        file.write(b"\xff")


@pytest.mark.parametrize("dealt_with", [True, False])
async def test_damage_that_a_query_finds_is_reported_and_then_skipped(
    node, queries, replica, dealt_with
):
    segment = replica.log.extent.active
    replica.log.roll()
    node.append(make_batch(timestamps=(5000,)), epoch=EPOCH + 2)
    damage(segment)
    segment.max_timestamp = None  # As after a restart.
    told = []

    def on_damage(replica, error):
        told.append((error.first, error.end))
        if dealt_with:
            replica.log.lost.add(error.first, error.end)
        return dealt_with

    node.plane._on_damage = on_damage
    for timestamp in (-3, 4000):
        refused = (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)
        expected = (0, 5000, 5, EPOCH + 2)
        if dealt_with or told:
            assert await offset_of(queries, timestamp) == expected
        else:
            assert await offset_of(queries, timestamp) == refused
    assert told == [(0, 5)]
    assert not replica.failed


async def test_a_query_is_refused_by_a_replica_that_must_be_fetched_again(node, queries, replica):
    class Damaged:
        def first_at_or_after(self, timestamp):
            raise CorruptLogError("x")

    replica.log = SimpleNamespace(search=Damaged())
    node.plane._on_damage = lambda replica, _error: replica.fail() or True
    assert await offset_of(queries, 5) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, -1)


class Slow:
    """Lets a thread decode a batch only when the test says so."""

    def __init__(self, monkeypatch):
        self.begun, self.go_on = threading.Event(), threading.Event()
        answer = BatchQuestion.answer

        def slow(question, fd):
            self.begun.set()
            assert self.go_on.wait(10)
            return answer(question, fd)

        monkeypatch.setattr(BatchQuestion, "answer", slow)

    async def wait(self):
        while not self.begun.is_set():
            await asyncio.sleep(0.001)


async def test_a_batch_is_decoded_beside_the_loop(queries, replica, monkeypatch):
    slow = Slow(monkeypatch)
    segment = replica.log.extent.active
    first = asyncio.create_task(offset_of(queries, 1001))
    second = asyncio.create_task(offset_of(queries, 1501))
    await slow.wait()
    assert await offset_of(queries, -1) == (0, -1, 5, EPOCH + 2), "the loop goes on"
    assert segment.pins == 2
    slow.go_on.set()
    assert await first == (0, 1500, 1, EPOCH)
    assert await second == (0, 4000, 2, EPOCH)
    assert segment.pins == 0


@pytest.mark.parametrize("again", [False, True])
async def test_what_was_found_by_a_leader_that_leads_no_more_is_not_told(
    queries, replica, monkeypatch, again
):
    slow = Slow(monkeypatch)
    asked = asyncio.create_task(offset_of(queries, 3000))
    await slow.wait()
    follow(replica, 2, EPOCH + 3)
    if again:
        lead(replica, EPOCH + 4)
    slow.go_on.set()
    assert await asked == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)


async def test_a_log_that_moves_meanwhile_is_searched_again(queries, replica, monkeypatch):
    """Segments are closed when a log moves, and a search passes over closed ones."""
    searches = []
    search = TimestampSearch.first_with_largest

    def counted(self):
        searches.append(replica.log_dir)
        return search(self)

    monkeypatch.setattr(TimestampSearch, "first_with_largest", counted)
    slow = Slow(monkeypatch)
    asked = asyncio.create_task(offset_of(queries, -3))
    await slow.wait()
    replica.log_moved(1)
    slow.go_on.set()
    assert await asked == (0, 4000, 2, EPOCH)
    assert searches == [0, 1]


async def test_a_segment_that_goes_meanwhile_is_read_to_its_end(
    node, queries, replica, monkeypatch
):
    replica.log.roll()
    slow = Slow(monkeypatch)
    asked = [asyncio.create_task(offset_of(queries, 1001)) for _ in range(2)]
    await slow.wait()
    segment = replica.log.extent.all[0]
    replica.log.stored_high_watermark = 5
    replica.log.deletion.advance_start(5)
    assert segment.deleted
    slow.go_on.set()
    for answer in asked:
        assert await answer == (0, 1500, 1, EPOCH)
    assert node.log_failures == []
    assert not segment.is_open()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (EPOCH + 2, (0, EPOCH + 2, 5)),
        (EPOCH + 1, (0, EPOCH, 4)),
        (EPOCH, (0, EPOCH, 4)),
        (EPOCH - 1, (0, EPOCH - 1, 0)),
        (EPOCH + 3, (0, -1, -1)),
    ],
)
def test_end_offsets_of_epochs(queries, asked, expected):
    request = pb.OffsetsForLeaderEpochRequest(
        partitions=[
            pb.EpochQuestion(topic_id=TOPIC, current_leader_epoch=-1, leader_epoch=asked),
            pb.EpochQuestion(topic_id=TOPIC, partition=8, current_leader_epoch=-1),
        ]
    )
    here, nowhere = queries.offsets_for_leader_epoch(request).results
    assert (here.error_code, here.leader_epoch, here.end_offset) == expected
    assert nowhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (nowhere.leader_epoch, nowhere.end_offset) == (-1, -1)


async def producers_of(queries, *partitions):
    request = pb.DescribeProducersRequest(
        partitions=[pb.ProducersQuestion(topic_id=TOPIC, partition=n) for n in partitions]
    )
    return (await queries.describe_producers(request)).results


async def test_the_producers_that_a_leader_remembers(node, queries):
    node.append(
        make_batch(timestamps=(7000, 9000), producer_id=41, producer_epoch=2, base_sequence=0),
        epoch=EPOCH + 2,
    )
    node.append(
        make_batch(timestamps=(8000,), producer_id=42, producer_epoch=0, base_sequence=5),
        epoch=EPOCH + 2,
    )
    node.append(
        make_batch(timestamps=(9500,), producer_id=41, producer_epoch=2, base_sequence=2),
        epoch=EPOCH + 2,
    )
    [answer] = await producers_of(queries, 0)
    assert answer.error_code == 0
    assert sorted(
        (p.producer_id, p.producer_epoch, p.last_sequence, p.last_timestamp)
        for p in answer.producers
    ) == [(41, 2, 2, 9500), (42, 0, 5, 8000)]
    assert {(p.coordinator_epoch, p.current_txn_start_offset) for p in answer.producers} == {
        (-1, -1)
    }


async def test_only_leaders_know_producers(queries, replica):
    follow(replica, 2, EPOCH + 3)
    results = await producers_of(queries, 0, 9)
    assert [r.error_code for r in results] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
