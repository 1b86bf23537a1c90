"""The child process, from its input line to its exit code."""

from __future__ import annotations

import io
import os
import subprocess
import time
from pathlib import Path

import pytest

from highwater.partition.storage.cleaning.child import clean_log
from highwater.partition.storage.cleaning.child_process import COMMAND
from highwater.partition.storage.cleaning.job import (
    CleaningDone,
    CleaningFailed,
    CleaningJob,
    GroupWritten,
    Report,
    decode_report,
    encode_job,
)
from highwater.partition.storage.log.log import PartitionLog
from tests.support.compacted_logs import job_of, keyed_batch
from tests.support.log_batches import append, open_log


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    made = open_log(tmp_path / "topic-0")
    for _ in range(3):
        append(made, keyed_batch([(b"a", b"1"), (b"b", b"1")]))
    made.roll()
    return made


def told(job: bytes) -> tuple[int, list[Report]]:
    output = io.BytesIO()
    code = clean_log(job, output)
    return code, [decode_report(line) for line in output.getvalue().splitlines()]


def test_reports_of_the_child(log: PartitionLog) -> None:
    code, reports = told(encode_job(job_of(log)))
    assert code == 0
    assert [type(report) for report in reports] == [GroupWritten, CleaningDone]
    assert reports[-1] == CleaningDone(next_dirty=6, records_kept=2, records_dropped=4)


def test_exit_codes_and_kinds_of_failure(log: PartitionLog) -> None:
    job = job_of(log)
    file = Path(log.extent.all[0].file)

    def failure(line: bytes) -> str:
        code, reports = told(line)
        assert code == 1
        (report,) = reports
        assert isinstance(report, CleaningFailed)
        return report.kind

    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert failure(encode_job(job)) == "unreadable"
    file.unlink()
    assert failure(encode_job(job)) == "io"
    assert failure(b"nonsense\n") == "bug"


def start(parent: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_a_process_of_its_own(log: PartitionLog) -> None:
    job: CleaningJob = job_of(log)
    child = start(os.getpid())
    output, _ = child.communicate(encode_job(job), timeout=50)
    assert child.returncode == 0
    assert isinstance(decode_report(output.splitlines()[-1]), CleaningDone)
    assert (Path(log.directory) / f"{0:020d}.log.cleaned").exists()


@pytest.mark.slow
def test_the_child_has_low_priority_and_ends_with_its_input() -> None:
    child = start(os.getpid())
    deadline = time.monotonic() + 40
    niceness = 0
    while niceness < 10 and time.monotonic() < deadline:
        niceness = int(Path(f"/proc/{child.pid}/stat").read_text().split()[18])
        time.sleep(0.05)
    assert niceness >= 10
    output, _ = child.communicate(b"", timeout=50)
    assert child.returncode == 1
    assert b"bug" in output


@pytest.mark.slow
def test_the_child_does_nothing_if_its_node_has_ended(log: PartitionLog) -> None:
    child = start(1)
    output, _ = child.communicate(encode_job(job_of(log)), timeout=50)
    assert (child.returncode, output) == (1, b"")
