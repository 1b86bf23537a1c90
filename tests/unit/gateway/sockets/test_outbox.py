"""Sending on a connection: every byte once and in order, no matter how the client reads."""

import asyncio
import contextlib
import os
import socket

import pytest

from highwater.gateway.sockets import outbox as module
from highwater.gateway.sockets.outbox import THREAD_BYTES_MIN, Outbox
from highwater.gateway.sockets.sender_threads import SenderThreads, send_range
from tests.unit.gateway.wires import Segment, connected, open_descriptors, receive

LARGE = THREAD_BYTES_MIN
HELD = []
"""(bytes, behind) that the last outbox has reported."""


class NoThreads:
    """Never has a free thread."""

    def send(self, *_work):
        return False


class HeldThreads:
    """Takes work; the test ends it."""

    def __init__(self):
        self.work = []

    def send(self, *work):
        self.work.append(work)
        return True


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    with Segment(tmp_path_factory.mktemp("segment") / "log", 8 << 20) as made:
        yield made


@pytest.fixture(params=["threads", "loop"])
async def pool(request):
    if request.param == "loop":
        yield NoThreads()
        return
    threads = SenderThreads(2, asyncio.get_running_loop().call_soon_threadsafe)
    yield threads
    threads.stop()


@pytest.fixture
async def pair():
    ours, theirs = await connected()
    yield ours, theirs
    theirs.close()


def make(pair, pool):
    errors = []
    ours, theirs = pair
    made = Outbox(
        ours,
        loop=asyncio.get_running_loop(),
        pool=pool,
        on_error=errors.append,
        on_held=lambda nbytes, behind: HELD.append((nbytes, behind)),
    )
    HELD.clear()
    return made, theirs, errors


async def test_small_replies_leave_at_once(pair, pool):
    out, theirs, errors = make(pair, pool)
    out.send([b"one"])
    out.send([b"two", b"three"])
    assert out.idle
    assert await receive(theirs, 11) == b"onetwothree"
    assert out.bytes_sent == 11
    out.close()
    assert errors == []


@pytest.mark.parametrize("read_bytes", [4096, 1 << 20])
async def test_many_ranges_and_bytes_arrive_exactly(pair, pool, segment, read_bytes):
    out, theirs, errors = make(pair, pool)
    expected = b""
    ranges = []
    for i in range(24):
        length = (LARGE, 100, LARGE * 3 + i, 40_000)[i % 4]
        part = segment.range(i * 1000, length)
        ranges.append(part)
        head, tail = b"<%d" % i * 5, b">" * (i % 3)
        out.send([head, part, tail] if tail else [head, part])
        expected += head + segment.data[i * 1000 : i * 1000 + length] + tail
        if i % 5 == 0:
            out.send([b"|" * 30_000])
            expected += b"|" * 30_000
    assert not out.idle
    got = await receive(theirs, len(expected), at_most=read_bytes)
    assert got == expected
    while not out.idle:
        await asyncio.sleep(0.005)
    assert out.bytes_sent == len(expected)
    assert [part.released for part in ranges] == [1] * 24
    out.close()
    assert errors == []


async def test_a_reader_that_stalls_longer_than_the_timeout_gets_everything_later(
    pair, segment, monkeypatch
):
    monkeypatch.setattr(send_range, "__defaults__", (0.05,))
    threads = SenderThreads(1, asyncio.get_running_loop().call_soon_threadsafe)
    out, theirs, errors = make(pair, threads)
    part, after = segment.range(0, 8 << 20), segment.range(5, 1000)
    out.send([b"head", part, b"tail"])
    out.send([after])
    await asyncio.sleep(0.3)
    assert not out.idle
    assert part.released == 0
    expected = b"head" + segment.data + b"tail" + segment.data[5:1005]
    assert await receive(theirs, len(expected)) == expected
    await asyncio.sleep(0.05)
    assert (part.released, after.released) == (1, 1)
    out.close()
    threads.stop()
    assert errors == []


@pytest.mark.parametrize("reset", [True, False])
async def test_a_peer_disconnects_in_the_middle_of_a_reply(pair, pool, segment, reset):
    out, theirs, errors = make(pair, pool)
    ranges = [segment.range(0, 4 << 20) for _ in range(5)]
    for part in ranges:
        out.send([b"head", part])
    await receive(theirs, 100_000)
    if reset:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    theirs.close()
    async with asyncio.timeout(5):
        while not errors:
            await asyncio.sleep(0.01)
            with contextlib.suppress(OSError):
                out.send([b"more"])
    assert len(errors) == 1
    late = segment.range(0, 10)
    out.send([late])
    out.close()
    await asyncio.sleep(0.05)
    assert [part.released for part in ranges] == [1] * 5
    assert late.released == 1
    assert len(errors) == 1


async def test_connections_that_end_anywhere_leave_no_descriptor(pool, segment):
    before = open_descriptors()
    ranges = []
    for i in range(20):
        ours, theirs = await connected()
        out, _, errors = make((ours, theirs), pool)
        part = segment.range(i, 6 << 20)
        ranges.append(part)
        out.send([b"head", part, b"tail"])
        if i % 3 == 0:
            await receive(theirs, 50_000)
        if i % 2:
            theirs.close()
        out.close()
        theirs.close()
        assert errors == []
    async with asyncio.timeout(5):
        while any(part.released == 0 for part in ranges):
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert [part.released for part in ranges] == [1] * 20
    assert open_descriptors() == before


async def test_after_close_the_threads_part_is_released_without_a_callback(pair, segment):
    threads = HeldThreads()
    out, _, errors = make(pair, threads)
    taken, waiting = segment.range(0, LARGE), segment.range(0, LARGE)
    out.send([b"head", taken, b"tail"])
    out.send([waiting])
    ((sock, header, _, _, length, trailer, done),) = threads.work
    assert (header, length, trailer) == (b"head", LARGE, b"tail")
    out.close()
    assert (taken.released, waiting.released) == (0, 1)
    assert sock.fileno() >= 0, "the thread still uses it"
    done(100, None)
    assert taken.released == 1
    assert sock.fileno() == -1
    assert errors == []


@pytest.mark.parametrize("sent", [0, 2, 4, 5, 4 + LARGE - 1, 4 + LARGE, 4 + LARGE + 2])
async def test_bytes_that_a_thread_did_not_send_go_first(pair, segment, sent):
    threads = HeldThreads()
    out, theirs, errors = make(pair, threads)
    part = segment.range(7, LARGE)
    out.send([b"head", part, b"tail"])
    out.send([b"after"])
    whole = b"head" + segment.data[7 : 7 + LARGE] + b"tail" + b"after"
    out._pool = NoThreads()
    threads.work[0][-1](sent, None)
    assert await receive(theirs, len(whole) - sent) == whole[sent:]
    await asyncio.sleep(0.01)
    assert part.released == 1
    assert out.idle
    assert out._queued_bytes == 0
    out.close()
    assert errors == []


async def test_a_thread_that_fails_ends_the_connection(pair, segment):
    threads = HeldThreads()
    out, _, errors = make(pair, threads)
    part, following = segment.range(0, LARGE), segment.range(0, LARGE)
    out.send([part])
    out.send([following])
    threads.work[0][-1](10, ConnectionResetError("gone"))
    assert errors == ["gone"]
    assert (part.released, following.released) == (1, 1)


async def test_a_file_that_is_shorter_than_promised_ends_the_connection(pair, pool, tmp_path):
    with Segment(tmp_path / "short", LARGE) as short:
        out, theirs, errors = make(pair, pool)
        part = short.range(0, LARGE)
        os.truncate(short.path, 1000)
        out.send([b"head", part])
        async with asyncio.timeout(5):
            while not errors:
                await asyncio.sleep(0.01)
        assert "shorter than promised" in errors[0]
        assert part.released == 1
        theirs.setblocking(False)


async def test_a_client_that_reads_nothing_is_closed_before_its_replies_fill_the_memory(
    pair, monkeypatch
):
    monkeypatch.setattr(module, "QUEUE_BYTES_MAX", 1 << 20)
    out, _, errors = make(pair, NoThreads())
    for _ in range(200):
        out.send([b"x" * 60_000])
        if errors:
            break
    assert errors == ["the client does not read its replies"]
    assert out._queued_bytes <= (1 << 20) + 60_000


async def test_files_count_as_nothing_in_the_queue(pair, segment, monkeypatch):
    monkeypatch.setattr(module, "QUEUE_BYTES_MAX", 1 << 20)
    out, _, errors = make(pair, NoThreads())
    ranges = [segment.range(0, 8 << 20) for _ in range(10)]
    for part in ranges:
        out.send([b"head", part])
    assert errors == []
    out.close()
    assert [part.released for part in ranges] == [1] * 10


async def test_a_client_that_reads_is_never_behind(pair, pool):
    out, theirs, _ = make(pair, pool)
    for _ in range(20):
        out.send([b"x" * 1000])
        await receive(theirs, 1000)
    assert HELD == []
    out.close()


async def test_a_client_that_does_not_read_is_behind_until_it_has_read(pair, pool, segment):
    out, theirs, _ = make(pair, pool)
    out.send([b"x" * (1 << 20)])
    nbytes, behind = HELD[-1]
    assert behind
    assert 0 < nbytes < 1 << 20, "the sockets have taken some"
    part = segment.range(0, 100_000)
    out.send([b"y" * 5000, part])
    assert HELD[-1] == (nbytes + 5000, True), "a range takes no memory"
    await receive(theirs, (1 << 20) + 105_000)
    while not out.idle:
        await asyncio.sleep(0.005)
    assert HELD[-1] == (0, False)
    assert [nbytes for nbytes, _ in HELD[2:]] == sorted((n for n, _ in HELD[2:]), reverse=True)
    out.close()
    assert part.released == 1


async def test_many_replies_behind_a_sender_thread_make_the_client_behind(pair, segment):
    threads = HeldThreads()
    out, theirs, _ = make(pair, threads)
    out.send([b"head", segment.range(0, LARGE)])
    for _ in range(module.QUEUE_PARTS_MAX):
        out.send([b"small"])
    assert HELD == [], "a few requests ahead are usual"
    out.send([b"small"])
    assert HELD == [(4 + 5 * (module.QUEUE_PARTS_MAX + 1), True)]
    threads.work[0][-1](4 + LARGE, None)
    assert HELD[-1] == (0, False)
    assert await receive(theirs, 5) == b"small"
    out.close()


async def test_a_closed_outbox_holds_nothing(pair, pool):
    out, _, _ = make(pair, pool)
    out.send([b"x" * (1 << 20)])
    assert HELD[-1][1]
    out.close()
    assert HELD[-1] == (0, False)


async def test_a_large_reply_is_not_copied_again_with_every_piece_that_the_socket_takes(pair, pool):
    out, theirs, _ = make(pair, pool)
    data = bytes(range(256)) * (32 << 10)
    out.send([data])
    assert max(map(len, out._queue)) <= module.PIECE_BYTES
    assert await receive(theirs, len(data)) == data
    out.close()
