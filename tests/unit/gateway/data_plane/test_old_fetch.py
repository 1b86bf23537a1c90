"""Fetch 0 to 3: message sets, in format 0 or 1, of what nodes answer."""

import asyncio
import os

import pytest

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.core.session import Session
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.core.standstill import Standstill
from highwater.gateway.core.turn import Turn
from highwater.gateway.data_plane.fetch_path import FetchPath
from highwater.gateway.data_plane.fetch_sessions import FetchSessions
from highwater.gateway.data_plane.old_fetch import RESPONSE_SHARE, ROUNDS_MAX, OldFetchPath
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.fetch import FetchedPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import fetch
from highwater.kafka.records.builder import RecordBatchBuilder, end_transaction_marker
from highwater.kafka.records.compression import Compression
from highwater.kafka.records.message_set import iter_messages
from highwater.model.authorization import AllowAll
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.runtime.clock import boot_ms
from tests.support.controller_images import image_of, topic_state
from tests.unit.gateway.core.session_world import Wire
from tests.unit.gateway.data_plane.fetch_world import Link, session_cache

OLD = pytest.mark.parametrize("version", [0, 1, 2, 3])
BUDGET = 64 << 20


class World:
    def __init__(self, *, old=True):
        self.links = {1: Link(), 2: Link()}
        self.wire = Wire()
        self.now_ms = 1000
        routing = RoutingTable(self.links.get)
        routing.apply(image_of(topics=[topic_state("orders", [(1,), (2,), (3,), (1,)])]))
        self.budget = MemoryBudget(BUDGET)
        shared = SharedInput(
            standstill=Standstill(boot_ms),
            turn=Turn(asyncio.get_running_loop().call_soon, lambda: self.now_ms * 10**6),
            budget=self.budget,
            meters=RequestMeters(),
            frame_bytes_max=1 << 20,
            in_flight_bytes_max=1 << 20,
        )
        peer = Peer(instance=DEFAULT_INSTANCE, node=None, host="", port=0)
        client = ClientInfo(peer, routing.topics_of(DEFAULT_INSTANCE))
        self.session = Session(shared=shared, handler=self, wire=self.wire, client=client)
        self.wire.session = self.session
        self.wire.unmute_after = lambda ms: None
        self.failed = []
        authorizer = AllowAll()
        sessions = FetchSessions(authorizer, session_cache(self.budget))
        self.path = FetchPath(authorizer, sessions)
        if old:
            self.path = OldFetchPath(self.path, self.budget)
        self.fetch = self.path.start

    def reply_failed(self, session, error):
        self.failed.append(error)

    def send(self, version, *asked, **settings):
        """`asked` are (partition, offset)."""
        request = fetch.FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            **settings,
            topics=[
                fetch.FetchRequestFetchTopic(
                    topic="orders",
                    partitions=[
                        fetch.FetchRequestFetchPartition(
                            partition=n, fetch_offset=offset, partition_max_bytes=1000
                        )
                        for n, offset in asked
                    ],
                )
            ],
        )
        body = encode_request_header(1, version, 5, "c") + fetch.encode_request(request, version)
        data = len(body).to_bytes(4, "big") + body
        self.session.get_buffer(-1)[: len(data)] = data
        self.session.buffer_updated(len(data))

    async def until(self, true):
        async with asyncio.timeout(10):
            while not true():
                await asyncio.sleep(0.001)

    async def asked_again(self, node=1):
        await self.until(lambda: self.links[node].works)
        return self.links[node].works[0]

    async def reply(self, version):
        """(partition, error, high watermark, [(format, offset, value)])."""
        await self.until(lambda: self.wire.sent)
        response = fetch.decode_response(b"".join(self.wire.sent), 8, version)
        self.wire.sent.clear()
        return [
            (
                p.partition_index,
                p.error_code,
                p.high_watermark,
                [(m.magic, m.offset, bytes(m.value)) for m in iter_messages(p.records)],
            )
            for t in response.responses
            for p in t.partitions
        ]


@pytest.fixture
async def w():
    made = World()
    yield made
    made.path.close()
    await asyncio.sleep(0.01)
    assert made.session.outstanding == 0
    assert made.session.closed or made.session.fetching == 0
    assert made.budget.used == made.budget.replies == 0
    assert made.failed == []


class File:
    """A range of a segment file."""

    def __init__(self, path, content):
        path.write_bytes(b"before" + content)
        self.fd = os.open(path, os.O_RDONLY)
        self.position, self.length = 6, len(content)
        self.released = 0

    def release(self):
        self.released += 1
        os.close(self.fd)


def batch(*values, base_offset=0, codec=0):
    builder = RecordBatchBuilder(base_offset=base_offset, compression=codec)
    for value in values:
        builder.append(key=b"k", value=value, timestamp_ms=7, headers=[("h", b"")])
    return builder.build()


def marker(offset):
    return end_transaction_marker(
        commit=True,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=7,
        base_offset=offset,
    )


def result(*batches):
    data = b"".join(batches)
    return FetchedPartition(0, 90, 90, 0, data, len(data))


NOTHING = (0, 90, [])


@OLD
async def test_batches_become_messages_of_the_versions_format(w, version):
    w.send(version, (0, 1))
    [work] = w.links[1].works
    assert (work.max_wait_ms, work.min_bytes, work.isolation_level) == (500, 1, 0)
    assert work.partitions[0].fetch_offset == 1
    w.links[1].answer(result(batch(b"a", b"b"), batch(b"c", base_offset=2)))
    magic = 1 if version >= 2 else 0
    assert await w.reply(version) == [(0, 0, 90, [(magic, 1, b"b"), (magic, 2, b"c")])]


@OLD
async def test_files_are_read_and_released(w, version, tmp_path):
    data = batch(b"a" * 100_000)
    file = File(tmp_path / "log", data)
    w.send(version, (0, 0))
    w.links[1].answer(FetchedPartition(0, 90, 90, 0, file, len(data)))
    assert w.budget.used > 2 * len(data)  # The conversion's memory.
    [(_, _, _, [(_, _, value)])] = await w.reply(version)
    assert value == b"a" * 100_000
    assert file.released == 1


async def test_a_file_that_cannot_be_read(w, tmp_path):
    file = File(tmp_path / "log", b"")
    file.length = 100
    os.close(file.fd)
    file.release = lambda: None
    w.send(1, (0, 0))
    w.links[1].answer(FetchedPartition(0, 90, 90, 0, file, 100))
    assert await w.reply(1) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, [])]


@OLD
async def test_the_whole_answer_has_a_limit(w, version):
    w.send(version, (0, 0))
    assert w.links[1].works[0].max_bytes == BUDGET // RESPONSE_SHARE
    w.links[1].answer(result())
    assert await w.reply(version) == [(0, *NOTHING)]


async def test_version_3_has_a_limit_of_its_own(w):
    w.send(3, (0, 0), max_bytes=1234)
    assert w.links[1].works[0].max_bytes == 1234
    w.links[1].answer(result())
    await w.reply(3)


@OLD
@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_NOT_AVAILABLE])
async def test_codes_that_old_clients_do_not_know(w, version, code):
    w.send(version, (0, 0))
    w.links[1].answer(FetchedPartition(code))
    assert await w.reply(version) == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, [])]


@OLD
async def test_partitions_that_no_node_answers(w, version):
    w.send(version, (2, 0), (9, 0))
    assert await w.reply(version) == [
        (2, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, []),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, []),
    ]


@OLD
async def test_zstd_is_refused_for_its_partition_only(w, version):
    w.send(version, (0, 0), (3, 0))
    w.links[1].answer(result(batch(b"a", codec=Compression.ZSTD)), result(batch(b"b")))
    magic = 1 if version >= 2 else 0
    assert await w.reply(version) == [
        (0, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1, []),
        (3, 0, 90, [(magic, 0, b"b")]),
    ]


async def test_goes_on_behind_control_batches_and_waits_there(w):
    w.send(1, (0, 0))
    w.now_ms += 100
    w.links[1].answer(result(marker(0), marker(1)))
    again = await w.asked_again()
    assert again.partitions[0].fetch_offset == 2
    assert (again.max_wait_ms, again.min_bytes) == (400, 1)
    w.links[1].answer(result(marker(2), batch(b"a", base_offset=3)))
    assert await w.reply(1) == [(0, 0, 90, [(0, 3, b"a")])]


async def test_nothing_behind_control_batches(w):
    w.send(1, (0, 0))
    w.links[1].answer(result(marker(0)))
    await w.asked_again()
    w.links[1].answer(result())
    assert await w.reply(1) == [(0, *NOTHING)]


async def test_goes_on_without_waiting_if_other_partitions_have_messages(w):
    w.send(1, (0, 0), (3, 5))
    w.links[1].answer(result(marker(0)), result(batch(b"b", base_offset=5)))
    again = await w.asked_again()
    assert [(p.partition, p.fetch_offset) for p in again.partitions] == [(0, 1)]
    assert again.max_wait_ms == 0
    w.links[1].answer(result(batch(b"a", base_offset=1)))
    assert await w.reply(1) == [(0, 0, 90, [(0, 1, b"a")]), (3, 0, 90, [(0, 5, b"b")])]


async def test_several_nodes(w):
    w.send(2, (0, 0), (1, 0))
    assert [link.works[0].max_wait_ms for link in w.links.values()] == [0, 0]
    w.links[1].answer(result(marker(0)))
    w.links[2].answer(result(marker(0)))
    for node in (1, 2):
        again = await w.asked_again(node)
        assert (again.partitions[0].fetch_offset, again.max_wait_ms) == (1, 0)
    w.links[1].answer(result())
    w.links[2].answer(result())
    for node in (1, 2):  # None has any: each is asked to wait, and the first ends it.
        assert (await w.asked_again(node)).max_wait_ms == 500
    w.links[2].answer(result(batch(b"a", base_offset=1)))
    assert await w.reply(2) == [(0, *NOTHING), (1, 0, 90, [(1, 1, b"a")])]
    assert len(w.links[1].cancelled) == 1


async def test_does_not_go_on_for_ever(w):
    w.send(1, (0, 0))
    for offset in range(ROUNDS_MAX + 1):
        work = await w.asked_again()
        assert work.partitions[0].fetch_offset == offset
        w.links[1].answer(result(marker(offset)))
    assert await w.reply(1) == [(0, *NOTHING)]


async def test_a_client_over_its_quota_is_answered(w):
    w.send(1, (0, 0))
    w.links[1].works[0].throttle_ms = 50
    w.links[1].answer(result(marker(0)))
    assert await w.reply(1) == [(0, *NOTHING)]


async def test_a_client_that_leaves_during_the_conversion(w, tmp_path):
    data = marker(0)
    file = File(tmp_path / "log", data)
    w.send(1, (0, 0))
    w.links[1].answer(FetchedPartition(0, 90, 90, 0, file, len(data)))
    w.session.connection_closed()
    await w.until(lambda: not w.session.outstanding)
    assert file.released == 1
    assert w.links[1].works == []


async def test_a_client_that_leaves_while_the_second_round_waits(w):
    w.send(1, (0, 0))
    w.links[1].answer(result(marker(0)))
    await w.asked_again()
    w.session.connection_closed()
    assert len(w.links[1].cancelled) == 1


async def test_newer_versions_take_their_usual_path(w):
    w.send(4, (0, 0))
    stored = batch(b"a")
    w.links[1].answer(result(stored))
    await w.until(lambda: w.wire.sent)
    response = fetch.decode_response(b"".join(w.wire.sent), 8, 4)
    assert bytes(response.responses[0].partitions[0].records) == stored


@OLD
async def test_without_the_setting_they_close_the_connection(version):
    w = World(old=False)
    w.send(version, (0, 0))
    assert w.wire.closed
    assert w.links[1].works == []


@pytest.mark.parametrize("version", [*range(4), 11])
async def test_a_client_over_its_quota_gets_nothing_but_the_time(w, version):
    muted = []
    w.wire.unmute_after = muted.append
    w.fetch = lambda session, frame: w.path.hold(session, frame, 400)
    w.send(version, (0, 0))
    await w.until(lambda: w.wire.sent)
    response = fetch.decode_response(b"".join(w.wire.sent), 8, version)
    assert (response.throttle_time_ms, response.responses) == (400 if version else 0, [])
    assert muted == [400]
    assert w.links[1].works == []
    w.session.wire.sent.clear()


async def test_a_held_request_of_an_old_version_that_is_malformed_closes_the_connection(w):
    body = encode_request_header(1, 2, 5, "c") + b"\0"
    data = len(body).to_bytes(4, "big") + body
    w.fetch = lambda session, frame: w.path.hold(session, frame, 400)
    w.session.get_buffer(-1)[: len(data)] = data
    w.session.buffer_updated(len(data))
    assert "malformed" in w.wire.closed
