"""Produce 0 to 2: leaders get record batches, in the order of the requests."""

import asyncio
import gzip

import pytest

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.core.session import Session
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.core.standstill import Standstill
from highwater.gateway.core.turn import Turn
from highwater.gateway.data_plane.old_produce import OldProducePath
from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import produce
from highwater.kafka.records.batch import RecordBatchView
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.compression import Compression
from highwater.kafka.records.message_set import append_message
from highwater.kafka.records.record import read_records
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import AllowAll
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.runtime.clock import boot_ms
from tests.support.controller_images import image_of, topic_state
from tests.unit.gateway.core.session_world import Wire
from tests.unit.gateway.handlers.fakes import DenySome, a_topic

OLD = pytest.mark.parametrize("version", [0, 1, 2])


class Group:
    log_append_time_ms, log_start_offset, throttle_ms = 77, 3, 9


class Link:
    """A leader that keeps batches until the test answers."""

    def __init__(self):
        self.batches = []

    def append(self, route, acks, batch, nbytes, sink, index, deadline_ms, transaction=None):
        assert transaction is None
        assert nbytes == len(batch)
        assert not memoryview(batch).readonly  # A leader in this process writes the offset into it.
        self.batches.append((route.partition, bytes(batch), deadline_ms, sink, index))

    def answer(self, base_offset=0, failure=None):
        *_, sink, index = self.batches.pop(0)
        sink.append_done(index, -1 if failure else base_offset, Group(), failure)


class World:
    def __init__(self, authorizer=None, *, old=True):
        self.link, self.wire = Link(), Wire()
        routing = RoutingTable(lambda node: self.link)
        routing.apply(image_of(topics=[topic_state("orders", [(1,), (1,), (1,)])]))
        self.budget = MemoryBudget(64 << 20)
        loop = asyncio.get_running_loop()
        shared = SharedInput(
            standstill=Standstill(boot_ms),
            turn=Turn(loop.call_soon, lambda: 1000 * 10**6),
            budget=self.budget,
            meters=RequestMeters(),
            frame_bytes_max=4 << 20,
            in_flight_bytes_max=4 << 20,
        )
        peer = Peer(instance=DEFAULT_INSTANCE, node=None, host="", port=0)
        client = ClientInfo(peer, routing.topics_of(DEFAULT_INSTANCE))
        self.session = Session(shared=shared, handler=self, wire=self.wire, client=client)
        self.wire.session = self.session
        self.wire.unmute_after = lambda ms: None
        self.failed = []
        rules = authorizer or AllowAll()
        self.path = ProducePath(rules)
        if old:
            self.path = OldProducePath(self.path, rules, self.budget)
        self.produce = self.path.start

    def reply_failed(self, session, error):
        self.failed.append(error)
        session.wire.close("bug")

    def send(self, frame):
        data = len(frame).to_bytes(4, "big") + frame
        at = 0
        while at < len(data):
            room = self.session.get_buffer(-1)
            part = data[at : at + len(room)]
            room[: len(part)] = part
            self.session.buffer_updated(len(part))
            at += len(part)

    async def until(self, true):
        async with asyncio.timeout(10):
            while not true():
                await asyncio.sleep(0.001)

    async def replies(self, version, count=1):
        await self.until(lambda: len(self.wire.sent) >= count)
        found = []
        for reply in self.wire.sent:
            response = produce.decode_response(reply, 8, version)
            found += [
                (p.index, p.error_code, p.base_offset, p.log_append_time_ms)
                for t in response.responses
                for p in t.partition_responses
            ]
        self.wire.sent.clear()
        return found

    def stored(self):
        """(partition, compression, records) of all batches at the leader."""
        found = []
        for partition, batch, *_ in self.link.batches:
            view = RecordBatchView(batch, 0, len(batch))
            assert view.crc_ok()
            records = [(r.timestamp, r.key, r.value) for r in read_records(view, 1 << 24)]
            found.append((partition, view.compression, records))
        return found


@pytest.fixture
async def w():
    made = World()
    yield made
    while made.link.batches:
        made.link.answer()
    made.path.close()
    await asyncio.sleep(0.01)
    assert made.session.outstanding == 0
    assert made.budget.used == 0
    assert made.failed == []


def message_set(*values, magic=1, codec=0):
    out = bytearray()
    for n, value in enumerate(values):
        append_message(
            out, magic=magic, offset=n, attributes=0, timestamp=1000 + n, key=b"k", value=value
        )
    if not codec:
        return bytes(out)
    inner, out = gzip.compress(out), bytearray()
    append_message(out, magic=magic, offset=0, attributes=codec, timestamp=0, key=None, value=inner)
    return bytes(out)


def frame(version, *sets, acks=1, timeout_ms=5000):
    """A request for the first partitions of the topic."""
    request = produce.ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            produce.ProduceRequestTopicProduceData(
                "orders",
                partition_data=[
                    produce.ProduceRequestPartitionProduceData(n, one) for n, one in enumerate(sets)
                ],
            )
        ],
    )
    return encode_request_header(0, version, 5, "c") + produce.encode_request(request, version)


@OLD
@pytest.mark.parametrize("magic", [0, 1])
async def test_a_set_becomes_a_batch(w, version, magic):
    w.send(frame(version, message_set(b"one", b"two", magic=magic)))
    times = (1000, 1001) if magic else (-1, -1)
    assert w.stored() == [(0, 0, [(times[0], b"k", b"one"), (times[1], b"k", b"two")])]
    assert w.link.batches[0][2] == 1000 + 5000
    w.link.answer(base_offset=12)
    assert await w.replies(version) == [(0, 0, 12, 77 if version >= 2 else -1)]


@OLD
async def test_compressed_sets_keep_their_compression(w, version):
    w.send(frame(version, message_set(b"one", codec=Compression.GZIP)))
    await w.until(lambda: w.link.batches)
    assert w.stored() == [(0, Compression.GZIP, [(1000, b"k", b"one")])]
    w.link.answer()
    assert await w.replies(version) == [(0, 0, 0, 77 if version >= 2 else -1)]


async def test_requests_keep_their_order_whatever_their_size(w):
    values = [b"a" * 100_000, b"b", b"c" * 50_000, b"d"]
    for value in values:
        codec = Compression.GZIP if value == b"b" else 0
        w.send(frame(1, message_set(value, codec=codec)))
    await w.until(lambda: len(w.link.batches) == 4)
    assert [records[0][2] for _, _, records in w.stored()] == values
    for offset in range(4):
        w.link.answer(base_offset=offset)
    assert [r[2] for r in await w.replies(1, 4)] == [0, 1, 2, 3]


async def test_the_conversion_counts_in_the_budget(w):
    sent = frame(1, message_set(b"a" * 100_000, codec=Compression.GZIP))
    w.send(sent)
    assert w.budget.used > len(sent)
    await w.until(lambda: w.link.batches)
    assert w.budget.used == len(sent)


@OLD
async def test_one_bad_set_does_not_stop_the_others(w, version):
    bad = bytearray(message_set(b"two"))
    bad[-1] ^= 1
    w.send(frame(version, message_set(b"one"), bad, message_set(b"three")))
    assert [(p, r[0][2]) for p, _, r in w.stored()] == [(0, b"one"), (2, b"three")]
    w.link.answer(base_offset=1)
    w.link.answer(base_offset=2)
    assert [r[:3] for r in await w.replies(version)] == [
        (0, 0, 1),
        (1, ErrorCode.CORRUPT_MESSAGE, -1),
        (2, 0, 2),
    ]


@OLD
async def test_a_record_batch_passes_as_it_is(w, version):
    builder = RecordBatchBuilder()
    builder.append(key=b"k", value=b"v", timestamp_ms=4)
    batch = builder.build()
    w.send(frame(version, batch))
    assert [each[1] for each in w.link.batches] == [batch]
    builder = RecordBatchBuilder(compression=Compression.ZSTD)
    builder.append(key=b"k", value=b"v", timestamp_ms=4)
    w.send(frame(version, builder.build()))
    w.link.answer()
    assert [r[1] for r in await w.replies(version, 2)] == [
        0,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ]


@OLD
async def test_bytes_that_a_message_has_by_chance_are_no_transactional_batch(version):
    """A record batch has the bit where the first message has the length of its key."""
    w = World(authorizer=DenySome((AclOperation.WRITE, a_topic("other"))))
    out = bytearray()
    append_message(out, magic=0, offset=0, attributes=0, timestamp=0, key=bytes(0x1010), value=b"v")
    w.send(frame(version, bytes(out)))
    await w.until(lambda: w.link.batches)
    w.link.answer()
    assert [r[1] for r in await w.replies(version)] == [0]
    w.path.close()


@OLD
async def test_a_denied_topic(version):
    w = World(authorizer=DenySome((AclOperation.WRITE, a_topic("orders"))))
    w.send(frame(version, message_set(b"one")))
    assert [r[1] for r in await w.replies(version)] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    w.path.close()


async def test_acks_0_is_not_answered(w):
    w.send(frame(1, message_set(b"one"), acks=0))
    w.link.answer()
    await asyncio.sleep(0.01)
    assert w.wire.sent == []
    assert w.session.outstanding == 0


async def test_a_storage_error_sends_the_client_to_look_for_the_leader(w):
    w.send(frame(2, message_set(b"one")))
    w.link.answer(failure=Failure(ErrorCode.KAFKA_STORAGE_ERROR))
    assert [r[1] for r in await w.replies(2)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_client_that_leaves_during_the_conversion(w):
    w.send(frame(1, message_set(b"a" * 100_000)))
    w.session.closed = True
    await w.until(lambda: w.link.batches)  # As a batch that was sent before it left.


@OLD
@pytest.mark.parametrize("sets", [(), (b"",), (None,)])
async def test_requests_without_messages(w, version, sets):
    w.send(frame(version, *sets))
    expected = [(0, ErrorCode.INVALID_RECORD, -1, -1)] if sets else []
    assert await w.replies(version) == expected


async def test_newer_versions_take_their_usual_path(w):
    batch = RecordBatchBuilder()
    batch.append(key=b"k", value=b"v", timestamp_ms=4)
    w.send(frame(3, batch.build()))
    w.link.answer()
    assert [r[1] for r in await w.replies(3)] == [0]


@OLD
async def test_without_the_setting_they_close_the_connection(version):
    w = World(old=False)
    w.send(frame(version, message_set(b"one")))
    assert w.session.closed or w.wire.closed
    assert w.link.batches == []
