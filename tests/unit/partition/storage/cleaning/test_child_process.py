"""The node's handle, with children that misbehave."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.partition.storage.cleaning import child_process
from highwater.partition.storage.cleaning.child_process import (
    PASS_S_MAX,
    ChildError,
    CleanerProcess,
    pass_s_max,
)
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


def test_the_time_limit_of_a_pass_includes_its_rate_limit(job: CleaningJob) -> None:
    large = replace(job, segments=[(0, 10, 6 << 30), (10, 20, 4 << 30)])
    assert pass_s_max(large) == PASS_S_MAX
    assert pass_s_max(replace(large, io_bytes_per_s=1 << 20)) == PASS_S_MAX + 3 * 10 * 1024


async def test_a_slow_rate_is_not_taken_for_a_child_that_hangs(
    job: CleaningJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "PASS_S_MAX", 0.0)
    for rate, ends in ((0, False), (1, True)):
        process = CleanerProcess(script("time.sleep(0.5)\nsys.exit(3)"))
        await process.start(replace(job, io_bytes_per_s=rate))
        with pytest.raises(ChildError, match="code 3" if ends else "takes too long"):
            await process.next_report()
        assert await process.end()


async def test_the_child_is_reaped_although_its_node_stops(job: CleaningJob) -> None:
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


async def test_the_child_is_killed_and_reaped(job: CleaningJob) -> None:
    process = CleanerProcess(script("time.sleep(300)"))
    await process.start(job)
    pid = process.pid
    process.kill()
    assert await process.end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid or -1, 0)
    assert await CleanerProcess().end(), "there is none"
