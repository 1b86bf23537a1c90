"""The unary calls of a link."""

import asyncio
from dataclasses import replace

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import UnreachableError
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import until
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.node import EPOCH, Fetched, ask

WHERE = {"topic_id": TOPIC, "partition": 0, "current_leader_epoch": -1}
LATEST = pb.ListOffsetsRequest(partitions=[pb.ListOffsetsPartition(**WHERE, timestamp=-1)])
EPOCH_END = pb.OffsetsForLeaderEpochRequest(
    partitions=[pb.EpochQuestion(**WHERE, leader_epoch=EPOCH)]
)
PRODUCERS = pb.DescribeProducersRequest(partitions=[pb.ProducersQuestion(topic_id=TOPIC)])
LOG_DIRS = pb.DescribeLogDirsRequest(all_topics=True)
WISH = pb.AlterLogDirsRequest(changes=[pb.LogDirChange()], paths=["/elsewhere"])
LOGGERS = pb.DescribeLoggersRequest()
LEVELS = pb.AlterLoggersRequest(changes=[pb.LoggerChange(logger="root", level="WARN")])


async def test_questions_are_answered(node, link):
    node.append(make_batch(timestamps=(1, 2, 3)))
    offsets = await link.list_offsets(LATEST, 5)
    assert [result.offset for result in offsets.results] == [3]
    ends = await link.offsets_for_leader_epoch(EPOCH_END, 5)
    assert [(r.leader_epoch, r.end_offset) for r in ends.results] == [(EPOCH, 3)]
    known = await link.describe_producers(PRODUCERS, 5)
    assert [(r.error_code, len(r.producers)) for r in known.results] == [(0, 0)]
    described = await link.describe_log_dirs(LOG_DIRS, 5)
    assert [[r.partition for r in d.replicas] for d in described.dirs] == [[0, 1]]
    assert described.dirs[0].replicas[0].size_bytes > 0
    told = await link.alter_log_dirs(WISH, 5)
    assert list(told.error_codes) == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert dict((await link.describe_loggers(LOGGERS, 5)).levels) == {"root": "INFO"}
    assert (await link.alter_loggers(LEVELS, 5)).error_code == 0
    assert dict((await link.describe_loggers(LOGGERS, 5)).levels) == {"root": "WARN"}


async def test_a_stream_that_failed_by_a_bug_is_opened_again(node, link, link_failures):
    stream = link._fetch.stream
    await until(lambda: stream.is_open)
    received = stream._received

    def buggy(message):
        stream._received = received
        raise KeyError("a bug")

    stream._received = buggy
    for _ in range(2):
        await until(lambda: stream.is_open)
        fetched = Fetched([ask(0)])
        link.fetch(fetched.work)
        await until(lambda fetched=fetched: fetched.answers)
    ((name, error),) = link_failures
    assert (name, type(error)) == ("node-1-Fetch", KeyError)
    link_failures.clear()


async def test_a_stopped_node_is_unreachable(node, link):
    await node.kill()
    with pytest.raises(UnreachableError, match="node 1"):
        await link.list_offsets(LATEST, 1)
    with pytest.raises(UnreachableError):
        await link.offsets_for_leader_epoch(EPOCH_END, 1)
    with pytest.raises(UnreachableError):
        await link.describe_producers(PRODUCERS, 1)
    with pytest.raises(UnreachableError):
        await link.describe_log_dirs(LOG_DIRS, 1)
    with pytest.raises(UnreachableError):
        await link.alter_log_dirs(WISH, 1)
    with pytest.raises(UnreachableError):
        await link.describe_loggers(LOGGERS, 1)
    with pytest.raises(UnreachableError):
        await link.alter_loggers(LEVELS, 1)


async def test_questions_to_a_node_end_when_it_is_fenced(node, open_link):
    writers = []
    silent = await asyncio.start_server(
        lambda _reader, writer: writers.append(writer), "127.0.0.1", 0
    )
    async with silent:
        address = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        link = open_link(replace(node.state(), address=address))
        asked = asyncio.create_task(link.list_offsets(LATEST, 30))
        await until(lambda: link._calls)
        for fenced in (True, False, True):
            link.set_fenced(fenced)
        async with asyncio.timeout(5):
            with pytest.raises(UnreachableError, match="fenced"):
                await asked
        again = asyncio.create_task(link.list_offsets(LATEST, 30))
        await until(lambda: link._calls)
        again.cancel()
        with pytest.raises(asyncio.CancelledError):
            await again
        assert not link._calls
        await link.close()
        for writer in writers:
            writer.close()
