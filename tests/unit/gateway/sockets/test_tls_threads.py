"""The pool of threads: few tasks out at a time, results on the loop."""

import asyncio
import threading

import pytest

from highwater.gateway.sockets.tls_threads import TASKS_PER_THREAD, TlsThreads


@pytest.fixture
async def pool():
    made = TlsThreads(1, asyncio.get_running_loop().call_soon_threadsafe, name="test")
    yield made
    made.stop()


async def test_results_and_exceptions_come_to_the_loop(pool):
    loop_thread = threading.get_ident()
    results = asyncio.Queue()

    def done(result):
        assert threading.get_ident() == loop_thread
        results.put_nowait(result)

    pool.run(threading.get_ident, done)
    pool.run(lambda: 1 // 0, done)
    pool.run(lambda: "last", done)
    async with asyncio.timeout(30):
        assert await results.get() != loop_thread
        assert isinstance(await results.get(), ZeroDivisionError)
        assert await results.get() == "last"


async def test_few_are_out_and_the_others_wait_in_order(pool):
    begun, results = [], []
    go = threading.Event()

    def work(number):
        go.wait(30)
        begun.append(number)
        return number

    for number in range(10):
        pool.run(lambda number=number: work(number), results.append)
    go.set()
    async with asyncio.timeout(30):
        while len(results) < 10:
            assert len(begun) - len(results) <= TASKS_PER_THREAD
            await asyncio.sleep(0)
    assert results == list(range(10))


async def test_a_late_loop_finds_few_results(pool):
    begun, results = [], []
    for number in range(10):
        pool.run(lambda number=number: begun.append(number), results.append)
    threading.Event().wait(0.2)  # The loop does nothing.
    assert len(begun) <= TASKS_PER_THREAD
    async with asyncio.timeout(30):
        while len(results) < 10:
            await asyncio.sleep(0)


async def test_a_stop_ends_what_is_out_and_fails_what_waits(pool):
    results = []
    for number in range(TASKS_PER_THREAD + 3):
        pool.run(lambda number=number: number, results.append)
    pool.stop()
    assert [str(result) for result in results] == ["the gateway stops"] * 3
    async with asyncio.timeout(30):
        while len(results) < TASKS_PER_THREAD + 3:
            await asyncio.sleep(0)
    assert results[3:] == list(range(TASKS_PER_THREAD))


async def test_no_thread_before_the_first_task():
    before = threading.active_count()
    pool = TlsThreads(3, asyncio.get_running_loop().call_soon_threadsafe, name="none")
    assert threading.active_count() == before
    pool.stop()
