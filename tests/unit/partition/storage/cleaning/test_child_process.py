"""The node's end, with children that misbehave."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from highwater.partition.storage.cleaning.child_process import ChildError, CleanerProcess
from highwater.partition.storage.cleaning.job import CleaningDone, CleaningJob, GroupWritten
from tests.support.compacted_logs import job_of, keyed_batch
from tests.support.log_batches import append, open_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def job(tmp_path: Path) -> CleaningJob:
    log = open_log(tmp_path / "topic-0")
    append(log, keyed_batch([(b"a", b"1"), (b"a", b"2")]))
    log.roll()
    return job_of(log)


def script(text: str) -> tuple[str, str, str]:
    return sys.executable, "-c", f"import sys, time; sys.stdin.readline()\n{text}"


async def test_reports_up_to_the_end(job: CleaningJob) -> None:
    process = CleanerProcess()
    assert process.pid is None
    await process.start(job)
    assert isinstance(await process.next_report(), GroupWritten)
    assert await process.next_report() == CleaningDone(
        next_dirty=2, records_kept=1, records_dropped=1
    )
    assert await process.end()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sys.exit(3)", "code 3"),
        ("print('hello', flush=True)", "no report|Expecting"),
        ("time.sleep(300)", "takes too long"),
    ],
)
async def test_children_that_misbehave(job: CleaningJob, text: str, why: str) -> None:
    process = CleanerProcess(script(text), silence_s_max=2.0)
    await process.start(job)
    with pytest.raises(ChildError, match=why):
        await process.next_report()
    assert await process.end()
    assert await process.end(), "it may be ended twice"


async def test_it_is_reaped_although_its_node_stops(job: CleaningJob) -> None:
    process = CleanerProcess(script("time.sleep(300)"))
    await process.start(job)
    pid = process.pid or -1
    ending = asyncio.create_task(process.end())
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_it_is_killed_and_reaped(job: CleaningJob) -> None:
    process = CleanerProcess(script("time.sleep(300)"))
    await process.start(job)
    pid = process.pid
    process.kill()
    assert await process.end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid or -1, 0)
    assert await CleanerProcess().end(), "there is none"
