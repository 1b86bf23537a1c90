"""The embedded link calls the data plane directly and gathers appends once per turn."""

import asyncio

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import UnreachableError
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.edge.local_link import LocalLink
from highwater.partition.node.log_dirs import LogDirRequests
from highwater.partition.node.loggers import LoggerQueries
from highwater.runtime.logging import silent_logger
from tests.support.log_batches import make_batch
from tests.support.still_replicas import StillReplicas
from tests.unit.hop.sinks import TOPIC, Sink, route
from tests.unit.partition.data_plane.node import EPOCH, Fetched, Node, ask, stored


class Coordinator:
    def __init__(self):
        self.submitted, self.cancelled = [], []
        self.submit, self.cancel = self.submitted.append, self.cancelled.append


def log_dirs_of(node, directory):
    return LogDirRequests(
        [directory],
        replicas=lambda _: node.plane.replicas.values(),
        is_online=lambda _: True,
        find=lambda _: None,
        prefer=lambda *_: None,
        moves=StillReplicas(),
    )


async def test_everything_reaches_the_node(tmp_path):
    node = Node(tmp_path)
    replica = node.add()
    due, coordinator = [], Coordinator()
    link = LocalLink(
        1,
        plane=node.plane,
        queries=OffsetQueries(node.plane, node._log_failed),
        log_dirs=log_dirs_of(node, tmp_path),
        loggers=LoggerQueries(silent_logger()),
        coordinator=coordinator,
        schedule=due.append,
    )
    fetched = Fetched((ask(0),))
    link.fetch(fetched.work)
    sink, to = Sink(), route(epoch=EPOCH)
    batches = [make_batch(value=b"%d" % n) for n in range(3)]
    for n, batch in enumerate(batches):
        link.append(to, 1, memoryview(batch), len(batch), sink, n, 1000)
    assert sink.results == []
    assert stored(replica) == b""
    (flush,) = due
    flush()
    assert sink.offsets == {0: 0, 1: 1, 2: 2}
    assert stored(replica) == b"".join(batches), "the client's own bytes, patched in place"
    assert fetched.sizes == [len(stored(replica))]
    fetched.results[0].release()
    waiting = Fetched((ask(3),))
    link.fetch(waiting.work)
    link.cancel_fetch(waiting.work)
    assert node.plane.waiting_fetches == 0
    asked = pb.ListOffsetsRequest(
        partitions=[pb.ListOffsetsPartition(topic_id=TOPIC, current_leader_epoch=-1, timestamp=-1)]
    )
    assert [r.offset for r in (await link.list_offsets(asked, 1)).results] == [3]
    ends = await link.offsets_for_leader_epoch(
        pb.OffsetsForLeaderEpochRequest(
            partitions=[
                pb.EpochQuestion(topic_id=TOPIC, current_leader_epoch=-1, leader_epoch=EPOCH)
            ]
        ),
        1,
    )
    assert [r.end_offset for r in ends.results] == [3]
    producers = pb.DescribeProducersRequest(partitions=[pb.ProducersQuestion(topic_id=TOPIC)])
    assert [len(r.producers) for r in (await link.describe_producers(producers, 1)).results] == [0]
    deleted = await link.delete_records(
        pb.DeleteRecordsRequest(partitions=[pb.DeleteRecordsPartition(topic_id=TOPIC, offset=2)]), 1
    )
    assert [r.low_watermark for r in deleted.results] == [2]
    where = [pb.TxnMarkerPartition(topic_id=TOPIC, leader_epoch=-1)]
    ended = await link.write_txn_markers(
        pb.WriteTxnMarkersRequest(markers=[pb.TxnMarker(producer_id=7, partitions=where)]), 1
    )
    assert list(ended.error_codes) == [0]
    described = await link.describe_log_dirs(pb.DescribeLogDirsRequest(all_topics=True), 1)
    assert [d.replicas[0].size_bytes for d in described.dirs] == [len(stored(replica))]
    wish = pb.LogDirChange(topic_id=TOPIC)
    wishes = pb.AlterLogDirsRequest(changes=[wish], paths=["/elsewhere"])
    told = await link.alter_log_dirs(wishes, 1)
    assert list(told.error_codes) == [ErrorCode.LOG_DIR_NOT_FOUND]
    loggers = await link.describe_loggers(pb.DescribeLoggersRequest(), 1)
    assert dict(loggers.levels) == {"root": "INFO"}
    altered = await link.alter_loggers(pb.AlterLoggersRequest(changes=[{"logger": "x"}]), 1)
    assert altered.error_code == ErrorCode.INVALID_CONFIG
    link.submit("call")
    link.cancel("call")
    assert coordinator.submitted == coordinator.cancelled == ["call"]


async def test_a_sink_that_raises_fails_neither_the_replica_nor_other_sinks(tmp_path):
    node = Node(tmp_path)
    replica = node.add()
    due = []
    link = LocalLink(
        1,
        plane=node.plane,
        queries=OffsetQueries(node.plane, node._log_failed),
        log_dirs=log_dirs_of(node, tmp_path),
        loggers=LoggerQueries(silent_logger()),
        coordinator=Coordinator(),
        schedule=due.append,
    )
    sink, to = Sink(), route(epoch=EPOCH)
    sink.raises = {0}
    for n in range(2):
        batch = make_batch()
        link.append(to, 1, memoryview(batch), len(batch), sink, n, 1000)
    due.pop()()
    assert (len(sink.errors), sink.offsets) == (1, {1: 1})
    assert (replica.failed, node.bugs) == (False, [])
    batch = make_batch()
    link.append(to, 1, memoryview(batch), len(batch), sink, 2, 1000)
    due.pop()()
    assert sink.offsets == {1: 1, 2: 2}


async def test_a_waiting_fetch_that_raises_does_not_fail_the_append_that_ends_it(tmp_path):
    node = Node(tmp_path)
    replica = node.add()
    due = []
    link = LocalLink(
        1,
        plane=node.plane,
        queries=OffsetQueries(node.plane, node._log_failed),
        loggers=LoggerQueries(silent_logger()),
        coordinator=Coordinator(),
        log_dirs=LogDirRequests(
            [],
            replicas=lambda _: (),
            is_online=lambda _: True,
            find=lambda _: None,
            prefer=lambda *_: None,
            moves=StillReplicas(),
        ),
        schedule=due.append,
    )
    bug = RuntimeError("a bug")

    def done(_work):
        raise bug

    waiting, good = Fetched((ask(0),)), Fetched((ask(0),))
    waiting.work.done = done
    link.fetch(waiting.work)
    link.fetch(good.work)
    sink, batch = Sink(), make_batch()
    link.append(route(epoch=EPOCH), 1, memoryview(batch), len(batch), sink, 0, 1000)
    due.pop(0)()
    assert sink.offsets == {0: 0}
    assert (replica.failed, node.bugs) == (False, [])
    assert good.sizes == [len(batch)]
    good.results[0].release()
    (throw,) = due
    with pytest.raises(RuntimeError, match="a bug"):
        throw()


class HangingQueries:
    """Of a node whose disk hangs."""

    async def list_offsets(self, request):
        await asyncio.Event().wait()


async def test_a_question_for_offsets_has_a_limit(tmp_path):
    node = Node(tmp_path)
    link = LocalLink(
        1,
        plane=node.plane,
        queries=HangingQueries(),
        log_dirs=log_dirs_of(node, tmp_path),
        loggers=LoggerQueries(silent_logger()),
        coordinator=Coordinator(),
        schedule=[].append,
    )
    with pytest.raises(UnreachableError, match="node 1 did not answer within 0"):
        await link.list_offsets(pb.ListOffsetsRequest(), 0.01)
