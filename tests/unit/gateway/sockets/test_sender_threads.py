"""Threads that send ranges: limited work, limited waits, results on the loop."""

import asyncio
import contextlib
import os
import socket
import threading
import time

import pytest

from highwater.gateway.sockets.sender_threads import SenderThreads, send_range
from tests.unit.gateway.wires import Segment, connected, receive


@pytest.fixture
def segment(tmp_path):
    with Segment(tmp_path / "log", 4 << 20) as made:
        yield made


@pytest.fixture
async def pair():
    ours, theirs = await connected()
    yield ours, theirs
    ours.close()
    theirs.close()


async def test_header_range_and_trailer_in_one_piece(pair, segment):
    ours, theirs = pair
    sending = asyncio.to_thread(send_range, ours, b"head", segment.fd, 11, 3 << 20, b"tail")
    expected = b"head" + segment.data[11 : 11 + (3 << 20)] + b"tail"
    got, (sent, error) = await asyncio.gather(receive(theirs, len(expected)), sending)
    assert got == expected
    assert (sent, error) == (len(expected), None)


async def test_a_stalled_reader_costs_the_timeout_and_no_more(pair, segment):
    ours, _ = pair
    started = time.monotonic()
    sent, error = await asyncio.to_thread(
        send_range, ours, b"head", segment.fd, 0, 4 << 20, b"", 0.1
    )
    assert error is None
    assert 4 < sent < 4 << 20
    assert 0.09 < time.monotonic() - started < 1


async def test_a_slow_reader_does_not_extend_the_timeout(pair, segment):
    ours, theirs = pair
    stop = threading.Event()

    def drip():
        while not stop.is_set():
            with contextlib.suppress(BlockingIOError):
                theirs.recv(2000)
            stop.wait(0.02)

    reader = threading.Thread(target=drip)
    reader.start()
    try:
        started = time.monotonic()
        sent, error = await asyncio.to_thread(
            send_range, ours, b"", segment.fd, 0, 4 << 20, b"", 0.2
        )
        assert error is None
        assert sent < 4 << 20
        assert time.monotonic() - started < 1
    finally:
        stop.set()
        reader.join(2)


async def test_errors_are_results(pair, segment):
    ours, theirs = pair
    os.truncate(segment.path, 100)
    sent, error = await asyncio.to_thread(send_range, ours, b"", segment.fd, 0, 200, b"")
    assert sent == 100
    assert "shorter" in str(error)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    theirs.close()
    await asyncio.sleep(0.05)
    _, error = await asyncio.to_thread(send_range, ours, b"head", segment.fd, 0, 50, b"")
    assert isinstance(error, OSError)


async def test_the_pool_takes_as_much_work_as_it_has_threads(pair, segment):
    ours, theirs = pair
    loop_thread = threading.get_ident()
    pool = SenderThreads(1, asyncio.get_running_loop().call_soon_threadsafe)
    done = asyncio.Event()
    results = []

    def finished(sent, error):
        assert threading.get_ident() == loop_thread
        results.append((sent, error))
        done.set()

    work = (ours, b"h", segment.fd, 0, 1 << 20, b"", finished)
    assert pool.send(*work)
    assert not pool.send(*work)
    await receive(theirs, (1 << 20) + 1)
    async with asyncio.timeout(5):
        await done.wait()
    assert results == [((1 << 20) + 1, None)]
    assert pool.send(ours, b"x", segment.fd, 0, 1, b"", finished), "it is free again"
    assert await receive(theirs, 2) == b"x" + segment.data[:1]
    pool.stop()


async def test_stopping_waits_for_the_work(pair, segment):
    ours, theirs = pair
    pool = SenderThreads(2, asyncio.get_running_loop().call_soon_threadsafe)
    results = []
    pool.send(ours, b"", segment.fd, 0, 1000, b"", lambda sent, error: results.append(sent))
    pool.stop()
    await asyncio.sleep(0)
    assert results == [1000]
    assert await receive(theirs, 1000) == segment.data[:1000]
