"""Transactions at a group coordinator: batches with a producer, markers, reloads."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestTopic,
)
from highwater.kafka.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, iter_batches
from highwater.model.transactions import AwaitedMarker, TransactionMarker
from tests.unit.partition.coordinator.memory_log import MemoryLog
from tests.unit.partition.coordinator.waiting import until
from tests.unit.partition.groups.handlers.test_txn_offset_commit import message
from tests.unit.partition.groups.node import Node

MARKER = TransactionMarker(
    producer_id=7, producer_epoch=3, committed=True, coordinator_epoch=9, transaction_version=2
)
ABORT = TransactionMarker(
    producer_id=7, producer_epoch=3, committed=False, coordinator_epoch=9, transaction_version=2
)


async def fetched(node, *, stable=False):
    topic = OffsetFetchRequestOffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])
    request = OffsetFetchRequest(group_id="g", topics=[topic], require_stable=stable)
    answer = await node.ask(request, 7)
    return [(p.committed_offset, p.error_code) for p in answer.topics[0].partitions]


async def write(node, marker, *, epoch=1):
    told = []
    node.coordinator.write_markers(0, epoch, [AwaitedMarker(marker, told.append)])
    await until(lambda: told)
    return told


async def committed(node):
    answer = await node.ask(message(), 3)
    return [p.error_code for p in answer.topics[0].partitions]


@pytest.mark.parametrize("marker", [MARKER, ABORT])
@pytest.mark.parametrize("reload", [False, True])
async def test_from_the_commit_to_the_marker(marker, reload):
    log = MemoryLog()
    node = await Node(log).lead()
    assert await committed(node) == [0, 0]
    if reload:
        node = await Node(log).lead()
    assert await fetched(node) == [(-1, 0), (-1, 0)]
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert await fetched(node, stable=True) == [(-1, unstable), (-1, unstable)]
    assert await write(node, marker) == [0]
    if reload:
        node = await Node(log).lead()
    expected = [(10, 0), (11, 0)] if marker.committed else [(-1, 0), (-1, 0)]
    assert await fetched(node, stable=True) == expected
    first, second = [next(iter(iter_batches(data))) for _, data in log.batches[0]]
    assert first.attributes & TRANSACTIONAL_BIT
    assert (first.producer_id, first.header().producer_epoch, first.record_count) == (7, 2, 2)
    assert first.header().base_sequence == -1
    assert second.attributes & CONTROL_BIT
    assert second.header().producer_epoch == 3


async def test_a_fenced_producer_costs_nobody_a_reload():
    log = MemoryLog()
    node = await Node(log).lead()
    log.producer_epochs[7] = 3
    assert await committed(node) == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2
    assert log.batches == {}
    log.refused_markers = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await write(node, MARKER) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    assert log.batches == {}


async def test_markers_where_nobody_coordinates():
    node = Node()
    assert await write(node, MARKER) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await node.lead()
    assert await write(node, MARKER, epoch=0) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    node.coordinator.resign(0)
    assert await write(node, MARKER) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_marker_is_answered_when_it_is_committed():
    log = MemoryLog(hold=True)
    node = await Node(log).lead()
    told = []
    node.coordinator.write_markers(0, 1, [AwaitedMarker(MARKER, told.append)])
    assert told == []
    log.commit()
    assert told == [0]
    node.coordinator.write_markers(0, 1, [AwaitedMarker(MARKER, told.append)])
    node.coordinator.resign(0)
    assert told == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
