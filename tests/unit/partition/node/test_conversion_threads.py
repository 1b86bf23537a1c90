import asyncio
import threading
import time

from highwater.partition.node.conversion_threads import WAITING_BYTES_MAX, ConversionThreads
from highwater.runtime.logging import silent_logger


async def until(condition) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def test_work_runs_beside_the_loop_and_ends_on_it():
    threads = ConversionThreads(silent_logger())
    told = []

    def work():
        time.sleep(0.01)
        told.append(threading.current_thread() is threading.main_thread())
        return [bytearray(b"x")]

    threads.submit(
        work, lambda result: told.append((result, threading.current_thread().name == "MainThread"))
    )
    await until(lambda: len(told) == 2)
    assert told == [False, ([bytearray(b"x")], True)]
    assert threads.conversions == 1
    threads.close()


async def test_a_failure_is_given_on():
    threads = ConversionThreads(silent_logger())
    told = []

    def work():
        raise MemoryError("none")

    threads.submit(work, told.append)
    await until(lambda: told)
    assert isinstance(told[0], MemoryError)
    threads.close()


async def test_after_the_end_nothing_is_told():
    threads = ConversionThreads(silent_logger())
    begun, go_on, told = threading.Event(), threading.Event(), []

    def slow():
        begun.set()
        go_on.wait(10)
        return []

    for _ in range(4):
        threads.submit(slow, told.append)
    begun.wait(10)
    threads.close()
    go_on.set()
    await until(lambda: len(told) == 2)
    await asyncio.sleep(0.01)
    assert told == [[], []], "those that had begun"


def test_bytes_that_wait_are_limited_but_one_group_always_may():
    threads = ConversionThreads(silent_logger())
    assert threads.admit(2 * WAITING_BYTES_MAX)
    assert not threads.admit(1)
    threads.leave(2 * WAITING_BYTES_MAX)
    assert threads.admit(WAITING_BYTES_MAX - 1)
    assert threads.admit(1)
    assert not threads.admit(1)
    threads.close()
