"""A stock server, generated from the proto, in the place of a partition node.

Towards a gateway's link, a follower, and a node that repairs a log, over the loop's own sockets.
"""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import grpc.aio
import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.api.partition.v1 import partition_service_pb2_grpc as rpc
from highwater.gateway.clients.node_link import GrpcNodeLink
from highwater.gateway.core.budget import MemoryBudget
from highwater.hop.append import OUTCOME_NOT_APPENDED, TransactionalWrite
from highwater.hop.channels import hop_channels
from highwater.hop.coordinator import CoordinatorCall
from highwater.hop.settings import HopSettings, HopTransport
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import NodeState
from highwater.model.errors import UnreachableError
from highwater.model.ids import DEFAULT_INSTANCE, NodeId
from highwater.partition.core.repair import Outcome
from highwater.partition.node.node_calls import NodeCalls
from highwater.partition.node.verifier_link import VerifierLink
from highwater.partition.replication.follower.range_client import RangeClient
from highwater.partition.transactions.partition_verifier import Place
from highwater.runtime.tasks import TaskOwner
from tests.contract import partition_messages as wire
from tests.support.controller_images import image_of
from tests.support.log_batches import ManualClock, make_batch
from tests.support.rpc_demo import eventually, run_on_uvloop
from tests.unit.hop.sinks import TOPIC, Sink, route
from tests.unit.partition.data_plane.node import EPOCH, Fetched, ask, stored
from tests.unit.partition.data_plane.roles import NODE, image_says
from tests.unit.partition.replication.follower.test_fetchers_grpc import FOLLOWER, Follower

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
CLOCK = ManualClock()
FAR_MS = CLOCK.now_ms + 60_000
LARGE = bytes(range(256)) * 8_000
METHODS = pb.DESCRIPTOR.services_by_name["PartitionService"].methods
REFUSED, SECOND_LEADER = b"refuse this one", 7


class StandIn(rpc.PartitionServiceServicer):
    """Answers as a node might; it keeps what it was asked."""

    def __init__(self):
        self.asked = []
        self.ends_appends = False
        """Whether it says after the next append that it stops."""
        self.records = b""
        """What fetchers of every kind get."""

    async def Append(self, requests, context):
        async for request in requests:
            self.asked.append(request)
            yield pb.AppendResponse(appended_message_ids=[request.message_id])
            yield pb.AppendResponse(results=_results(request), ending=self.ends_appends)

    async def Fetch(self, requests, context):
        async for request in requests:
            self.asked.append(request)
            begun = 1
            for call_id, count, _, _, _, _, _ in wire.FETCH_CALL.iter_unpack(request.calls):
                assert count == 1
                # In two pieces; the first has the partition.
                half = len(self.records) // 2
                pieces = [self.records[:half], self.records[half:]]
                row = wire.FETCH_RESULT.pack(0, 50, 49, 3, len(self.records))
                for last, piece in enumerate(pieces):
                    header = pb.FetchResponse(
                        answers=wire.FETCH_ANSWER.pack(
                            call_id, not last, 0 if last else 9, len(piece), last
                        ),
                        partitions=b"" if last else row,
                        begun_messages=begun,
                    )
                    if not last:
                        header.details.add(leader=-1, leader_epoch=-1, diverging_epoch=-1)
                        header.details[0].aborted_transactions.add(producer_id=5, first_offset=4)
                    yield wire.framed(header, piece)
                    begun = 0

    async def Coordinate(self, requests, context):
        async for request in requests:
            self.asked.append(request)
            yield pb.CoordinateResponse(
                replies=[
                    pb.CoordinatorReply(call_id=call.call_id, body=call.body[::-1])
                    for call in request.calls
                ]
            )

    async def Replicate(self, requests, context):
        end = 1
        async for request in requests:
            self.asked.append(request)
            answers, payload = b"", b""
            for topic, partition, epoch, offset, last, *_ in wire.REPLICATE_ROW.iter_unpack(
                request.partitions
            ):
                records = self.records if offset < end else b""
                payload += records
                answers += wire.REPLICATE_ANSWER.pack(
                    *(topic, partition, epoch, offset, last, 0),
                    *(offset, 0, end, -1, -1, len(records)),
                )
            if not answers:
                await asyncio.sleep(0.1)  # There is no news.
            header = pb.ReplicateResponse(
                request_id=request.request_id, topic_ids=request.topic_ids, partitions=answers
            )
            yield wire.framed(header, payload)

    async def ListOffsets(self, request, context):
        self.asked.append(request)
        return pb.ListOffsetsResponse(results=[{"offset": 5, "timestamp": 6, "leader_epoch": 2}])

    async def OffsetsForLeaderEpoch(self, request, context):
        self.asked.append(request)
        return pb.OffsetsForLeaderEpochResponse(results=[{"leader_epoch": 2, "end_offset": 8}])

    async def DeleteRecords(self, request, context):
        self.asked.append(request)
        return pb.DeleteRecordsResponse(results=[{"low_watermark": 7}])

    async def WriteTxnMarkers(self, request, context):
        self.asked.append(request)
        codes = [one.producer_epoch for one in request.markers for _ in one.partitions]
        return pb.WriteTxnMarkersResponse(error_codes=codes)

    async def DescribeProducers(self, request, context):
        self.asked.append(request)
        told = [{"producer_id": 5, "producer_epoch": 2, "last_sequence": -1}]
        return pb.DescribeProducersResponse(results=[{"producers": told}])

    async def CoordinateOne(self, request, context):
        self.asked.append(request)
        return pb.CoordinatorReply(error_code=ErrorCode.NOT_COORDINATOR, body=request.body[::-1])

    async def AlterLogDirs(self, request, context):
        self.asked.append(request)
        return pb.AlterLogDirsResponse(error_codes=[ErrorCode.LOG_DIR_NOT_FOUND])

    async def DescribeLoggers(self, request, context):
        self.asked.append(request)
        return pb.DescribeLoggersResponse(levels={"root": "INFO"})

    async def AlterLoggers(self, request, context):
        self.asked.append(request)
        return pb.AlterLoggersResponse(error_code=ErrorCode.INVALID_REQUEST, message="no level")

    async def DescribeLogDirs(self, request, context):
        self.asked.append(request)
        await context.abort(grpc.StatusCode.INTERNAL, "the disks: grün & 100%")

    async def ReadRange(self, request, context):
        self.asked.append(request)
        if request.offset:
            return pb.ReadRangeResponse(error_code=ErrorCode.CORRUPT_MESSAGE)
        return pb.ReadRangeResponse(records=self.records)


def _results(request):
    """Refuses a batch with certain words, and gives all others offsets from 100 on."""
    sizes, at, results = list(request.batch_bytes), 0, []
    for group, count in enumerate(request.group_batches):
        result = pb.AppendGroupResult(
            message_id=request.message_id, group=group, log_start_offset=3, log_append_time_ms=-1
        )
        for number in range(count):
            nbytes = sizes.pop(0)
            refused = REFUSED in request.payload[at : at + nbytes]
            result.base_offsets.append(-1 if refused else 100 + number)
            if refused:
                result.failures.add(
                    batch=number,
                    error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    outcome=pb.APPEND_OUTCOME_NOT_APPENDED,
                    message="not here",
                    leader=SECOND_LEADER,
                    leader_epoch=EPOCH + 1,
                )
            at += nbytes
        results.append(result)
    assert (at, sizes) == (len(request.payload), [])
    return results


async def serve(stand_in, port=0):
    server = grpc.aio.server(options=OPTIONS)
    rpc.add_PartitionServiceServicer_to_server(stand_in, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server, port


def state_of(port):
    return NodeState(
        node_id=NodeId(NODE),
        node_epoch=1,
        address=f"127.0.0.1:{port}",
        rack="",
        incarnation="none",
        log_dirs=(),
        fenced=False,
    )


@contextlib.asynccontextmanager
async def scene(directory):
    """A stand-in, and a gateway's link to it whose streams are open."""
    stand_in, failures = StandIn(), []
    server, port = await serve(stand_in)

    def failed(name, error):
        failures.append((name, error))

    channels = hop_channels(HopSettings(transport=HopTransport.LOOP), failed)
    link = GrpcNodeLink(
        state_of(port),
        clock=CLOCK,
        schedule=asyncio.get_running_loop().call_soon,
        on_failure=failed,
        budget=MemoryBudget(64 << 20),
        channels=channels,
    )
    link.start()
    streams = (link._append, link._fetch, link._coordinate)
    await eventually(lambda: all(one.stream.is_open for one in streams))
    try:
        yield {
            "stand_in": stand_in,
            "server": server,
            "port": port,
            "link": link,
            "channels": channels,
            "directory": directory,
        }
    finally:
        await link.close()
        await server.stop(0)
    assert failures == []


@pytest.fixture
async def made(tmp_path):
    async with scene(tmp_path) as things:
        yield things


@pytest.fixture
def stand_in(made):
    return made["stand_in"]


@pytest.fixture
def server(made):
    return made["server"]


@pytest.fixture
def port(made):
    return made["port"]


@pytest.fixture
def link(made):
    return made["link"]


@pytest.fixture
def channels(made):
    return made["channels"]


@pytest.fixture
def directory(made):
    return made["directory"]


def append(link, sink, index, value, transaction=None):
    batch = make_batch(value=value)
    link.append(
        route(2, epoch=EPOCH),
        -1,
        memoryview(batch),
        len(batch),
        sink,
        index,
        FAR_MS,
        transaction,
    )


async def test_appends(stand_in, link):
    sink = Sink()
    for number, value in enumerate([b"a", LARGE, REFUSED, b"d"]):
        append(link, sink, number, value)
    await eventually(lambda: len(sink.results) == 4)
    assert sink.codes == {0: 0, 1: 0, 2: ErrorCode.NOT_LEADER_OR_FOLLOWER, 3: 0}
    (refused,) = [failure for _, _, failure in sink.results if failure]
    assert (refused.message, refused.outcome) == ("not here", OUTCOME_NOT_APPENDED)
    assert (refused.leader, refused.leader_epoch) == (SECOND_LEADER, EPOCH + 1)
    sent = b"".join(make_batch(value=value) for value in (b"a", LARGE, REFUSED, b"d"))
    assert b"".join(asked.payload for asked in stand_in.asked) == sent
    for number, asked in enumerate(stand_in.asked, start=1):
        assert asked.message_id == number
        assert {asked.topic_ids[n] for n in asked.group_topic} == {TOPIC}
        assert (set(asked.group_partition), set(asked.group_leader_epoch)) == ({2}, {EPOCH})
        assert set(asked.group_acks) == {-1}
        assert 0 < asked.deadline_ms <= 60_000
        header = asked.header_bytes
        asked.ClearField("payload")
        assert asked.ByteSize() == header


async def test_appends_of_transactions(stand_in, link):
    """Groups of several transactions, and of none, are in the same messages."""
    sink = Sink()
    writes = [
        None,
        TransactionalWrite("payments", True),
        TransactionalWrite("orders", False),
        TransactionalWrite("payments", False),
    ]
    for number, write in enumerate(writes):
        append(link, sink, number, b"%d" % number, write)
    await eventually(lambda: len(sink.results) == 4)
    told = []
    for asked in stand_in.asked:
        codes = asked.group_transaction or [0] * len(asked.group_topic)
        for code in codes:
            name = asked.transactional_ids[(code - 1) // 2] if code else None
            told.append((name, bool(code) and code % 2 == 0))
    assert told == [(None, False), ("payments", True), ("orders", False), ("payments", False)]


async def test_fetches(stand_in, link):
    stand_in.records = bytes(make_batch(value=LARGE))
    fetched = Fetched((ask(40, epoch=EPOCH, max_bytes=1 << 26),), max_bytes=1 << 26)
    link.fetch(fetched.work)
    await eventually(lambda: fetched.answers)
    (result,) = fetched.results
    assert bytes(result.records) == stand_in.records
    assert (result.high_watermark, result.last_stable_offset, result.log_start_offset) == (
        (50, 49, 3)
    )
    assert (result.aborted_transactions, fetched.work.throttle_ms) == ([(5, 4)], 9)
    (asked,) = stand_in.asked
    (row,) = wire.FETCH_PARTITION.iter_unpack(asked.partitions)
    # Topic, partition, leader epoch, offset; no epoch of the last record.
    assert row == (0, 0, EPOCH, 40, -1, 1 << 26)
    assert (list(asked.topic_ids), asked.accepts_references) == ([TOPIC], False)


async def test_coordinator_calls(stand_in, link):
    replies = []
    for number in range(3):
        link.submit(
            CoordinatorCall(
                api_key=11,
                api_version=7,
                instance=DEFAULT_INSTANCE,
                client_id="c",
                client_host="/h",
                body=memoryview(LARGE[number:]),
                partition=number,
                deadline_ms=5_000,
                reply=lambda code, body, number=number: replies.append((number, code, body)),
            )
        )
    await eventually(lambda: len(replies) == 3)
    assert sorted(replies) == [(number, 0, LARGE[number:][::-1]) for number in range(3)]
    calls = [call for request in stand_in.asked for call in request.calls]
    assert [(call.api_key, call.coordinator_partition) for call in calls] == [
        (11, number) for number in range(3)
    ]


async def test_unary_calls(stand_in, link):
    offsets = await link.list_offsets(pb.ListOffsetsRequest(), 5.0)
    assert [(r.offset, r.timestamp, r.leader_epoch) for r in offsets.results] == [(5, 6, 2)]
    ends = await link.offsets_for_leader_epoch(pb.OffsetsForLeaderEpochRequest(), 5.0)
    assert [(r.leader_epoch, r.end_offset) for r in ends.results] == [(2, 8)]
    deleted = await link.delete_records(pb.DeleteRecordsRequest(), 5.0)
    assert [r.low_watermark for r in deleted.results] == [7]
    markers = [{"producer_epoch": 47, "partitions": [{"partition": 0}, {"partition": 1}]}]
    written = await link.write_txn_markers(pb.WriteTxnMarkersRequest(markers=markers), 5.0)
    assert list(written.error_codes) == [47, 47]
    (told,) = (await link.describe_producers(pb.DescribeProducersRequest(), 5.0)).results
    (producer,) = told.producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (5, 2, -1)
    with pytest.raises(UnreachableError, match="the disks: grün & 100%"):
        await link.describe_log_dirs(pb.DescribeLogDirsRequest(), 5.0)
    altered = await link.alter_log_dirs(pb.AlterLogDirsRequest(paths=["/elsewhere"]), 5.0)
    assert list(altered.error_codes) == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert dict((await link.describe_loggers(pb.DescribeLoggersRequest(), 5.0)).levels) == {
        "root": "INFO"
    }
    refused = await link.alter_loggers(pb.AlterLoggersRequest(), 5.0)
    assert (refused.error_code, refused.message) == (ErrorCode.INVALID_REQUEST, "no level")
    unary = {one.input_type.name for one in METHODS if not one.client_streaming}
    asked = {type(one).DESCRIPTOR.name for one in stand_in.asked}
    assert unary - asked == {"CoordinatorCall", "ReadRangeRequest"}, "which nodes ask one another"


async def test_a_node_that_asks_a_transaction_coordinator(stand_in, port, channels):
    calls, tasks, answers = NodeCalls(channels), TaskOwner(lambda _name, _error: None), []
    calls.image_changed(image_of([state_of(port)]))
    link = VerifierLink(
        node_id=lambda: FOLLOWER, coordinator=lambda _: None, calls=calls, tasks=tasks
    )
    place = Place(NodeId(NODE), DEFAULT_INSTANCE)
    link.send(place, b"body", lambda code, body: answers.append((code, body)))
    await eventually(lambda: answers)
    assert answers == [(ErrorCode.NOT_COORDINATOR, b"ydob")]
    (asked,) = stand_in.asked
    assert (asked.api_key, asked.instance) == (ApiKey.ADD_PARTITIONS_TO_TXN, DEFAULT_INSTANCE)
    assert (asked.coordinator_partition, asked.deadline_ms) == (-1, 5000)
    await tasks.close(timeout_s=1)
    await calls.close()


def test_the_stand_in_has_every_method_of_the_proto():
    assert {method.name for method in METHODS} <= set(vars(StandIn))


async def test_a_node_that_stops_and_comes_back(stand_in, server, port, link):
    stand_in.ends_appends = True
    sink = Sink()
    append(link, sink, 0, b"before")
    await eventually(lambda: sink.results)
    # The link has closed its side, so the call ends, and the link opens another one.
    stand_in.ends_appends = False
    await eventually(lambda: link.takes_appends)
    await server.stop(0)
    await eventually(lambda: not link.takes_appends)
    append(link, sink, 1, b"meanwhile")
    server, _ = await serve(stand_in, port)
    await eventually(lambda: len(sink.results) == 2)
    assert sink.codes == {0: 0, 1: 0}
    await server.stop(0)


async def test_a_follower(stand_in, port, directory):
    stand_in.records = bytes(make_batch(value=LARGE[: 900 << 10], epoch=EPOCH))
    follower = Follower(directory, HopTransport.LOOP)
    image_says(follower.replica, leader=NODE, epoch=EPOCH, replicas=(NODE, FOLLOWER))
    follower.hear(state_of(port))
    await eventually(lambda: follower.log.log_end_offset == 1)
    assert stored(follower.replica) == stand_in.records
    rows = [
        row
        for asked in list(stand_in.asked)
        for row in wire.REPLICATE_ROW.iter_unpack(asked.partitions)
    ]
    assert rows[0] == (0, 0, EPOCH, 0, -1)
    await eventually(lambda: follower.replica.high_watermark == 1)
    asked = stand_in.asked[1]
    assert (asked.request_id, asked.node_id, asked.node_epoch) == (2, FOLLOWER, 70)
    (row,) = wire.REPLICATE_ROW.iter_unpack(asked.partitions)
    assert row == (0, 0, EPOCH, 1, EPOCH), "which says that it has the record"
    await follower.fetchers.close()
    assert follower.failures == []


async def test_a_node_that_asks_for_lost_records(stand_in, port, channels):
    stand_in.records = bytes(make_batch(value=LARGE))
    ranges = RangeClient(channels)
    ranges.image_changed(image_of([state_of(port)]))
    assert await ranges.ask(NODE, TOPIC, 3, EPOCH, 0, 1) == stand_in.records
    assert await ranges.ask(NODE, TOPIC, 3, EPOCH, 1, 2) is Outcome.DAMAGED
    first = stand_in.asked[0]
    assert (first.topic_id, first.partition, first.leader_epoch) == (TOPIC, 3, EPOCH)
    assert (first.offset, first.end_offset) == (0, 1)
    await ranges.close()


@pytest.mark.parametrize(
    "check",
    [
        test_appends,
        test_fetches,
        test_unary_calls,
        test_a_node_that_stops_and_comes_back,
        test_a_follower,
    ],
)
def test_on_uvloop(check, tmp_path):
    run_on_uvloop(check, lambda: scene(tmp_path))
