import queue
import threading
from collections.abc import Callable

import pytest

from highwater.partition.storage.directory.worker import DirectoryWorker
from highwater.partition.storage.errors import LogDirFailure
from tests.support.log_batches import ManualClock

Posted = queue.SimpleQueue[Callable[[], None]]


@pytest.fixture
def posted() -> Posted:
    return queue.SimpleQueue()


def worker(
    posted: Posted,
    failures: list[LogDirFailure],
    *,
    clock: ManualClock | None = None,
    **options: int,
) -> DirectoryWorker:
    return DirectoryWorker(
        "dir",
        post=posted.put,
        on_failure=failures.append,
        monotonic_ms=(clock or ManualClock()).monotonic_ms,
        **options,
    )


def test_jobs_run_in_order_elsewhere_and_report_here(posted: Posted) -> None:
    failures: list[LogDirFailure] = []
    done: list[int] = []
    threads: set[int] = set()
    subject = worker(posted, failures)
    for number in range(5):
        subject.submit(
            lambda: threads.add(threading.get_ident()), lambda number=number: done.append(number)
        )
    assert subject.stop(timeout_s=5)
    assert done == []
    while not posted.empty():
        posted.get()()
    assert done == [0, 1, 2, 3, 4]
    assert threads.isdisjoint({threading.get_ident()})
    assert len(threads) == 1
    assert failures == []


def test_after_a_failure_nothing_runs(posted: Posted) -> None:
    failures: list[LogDirFailure] = []
    ran: list[str] = []
    subject = worker(posted, failures)

    def fail() -> None:
        raise OSError(5, "bad sector")

    subject.submit(fail, lambda: ran.append("done"))
    posted.get(timeout=5)()
    subject.submit(lambda: ran.append("next"), lambda: ran.append("next done"))
    assert subject.stop(timeout_s=5)
    assert posted.empty()
    assert ran == []
    assert [failure.cause.errno for failure in failures] == [5]


def test_a_worker_that_hangs_is_left_behind_and_its_queue_is_bounded(posted: Posted) -> None:
    failures: list[LogDirFailure] = []
    subject = worker(posted, failures, waiting_max=3)
    entered, release = threading.Event(), threading.Event()

    def hang() -> None:
        entered.set()
        release.wait(10)

    subject.submit(hang, lambda: None)
    assert entered.wait(5)
    for _ in range(3):
        subject.submit(lambda: None, lambda: None)
    assert failures == []
    assert subject.waiting == 3
    subject.submit(lambda: None, lambda: None)
    posted.get(timeout=5)()
    assert "waiting" in str(failures[0])
    assert not subject.stop(timeout_s=0.05)
    release.set()


def test_how_long_a_job_has_been_under_way(posted: Posted) -> None:
    clock = ManualClock(0)
    subject = worker(posted, [], clock=clock)
    begun, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        assert go_on.wait(5)

    clock.now_ms = 60_000
    assert subject.busy_ms() == 0, "it has nothing to do"
    subject.submit(hang, lambda: None)
    assert begun.wait(5)
    clock.now_ms += 4_000
    assert subject.busy_ms() == 4_000
    go_on.set()
    posted.get(timeout=5)
    assert subject.stop(timeout_s=5)
    assert subject.busy_ms() == 0
