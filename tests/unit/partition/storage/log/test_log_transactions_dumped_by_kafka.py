"""Kafka's own DumpLogSegments reads logs, indexes and snapshots with transactions."""

import re
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from tests.support.java_tools import DUMP_LOG_SEGMENTS, java_tool
from tests.support.log_batches import append, make_batch, open_log
from tests.support.transactional_logs import end, indexed, write

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments with committed, aborted and open transactions."""
    path = tmp_path_factory.mktemp("dump") / "topic-0"
    log = open_log(path, LogConfig(index_interval_bytes=200))
    for number in range(20):
        write(log, 5, records=2)
        write(log, 6)
        append(log, make_batch(timestamps=(1_700_000_000_000,)))
        end(log, 5, commit=number % 3 == 0, coordinator_epoch=number)
        end(log, 6, commit=False, epoch=0)
        if number == 9:
            log.roll()
    write(log, 7)
    log.close(clean=True)
    return path


def dump(files: list[Path], *options: str) -> str:
    names = ",".join(str(file) for file in sorted(files))
    done = java_tool(DUMP_LOG_SEGMENTS, "--files", names, *options)
    return done.stdout + done.stderr


def test_markers_and_indexes(directory: Path) -> None:
    log = open_log(directory, clean=True)
    entries = [one for segment in indexed(log) for one in segment]
    log.close(clean=True)
    kinds = ("*.log", "*.index", "*.timeindex", "*.txnindex")
    output = dump(
        [file for kind in kinds for file in directory.glob(kind)],
        "--deep-iteration",
        "--print-data-log",
    )
    assert "isvalid: false" not in output
    assert len(re.findall(r"endTxnMarker: COMMIT coordinatorEpoch: \d+", output)) == 7
    assert len(re.findall(r"endTxnMarker: ABORT coordinatorEpoch: \d+", output)) == 33
    found = re.findall(
        r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) "
        r"lastStableOffset: (\d+)",
        output,
    )
    told = [
        (one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset)
        for one in entries
    ]
    assert [tuple(map(int, fields)) for fields in found] == told
    assert len(told) == 33
    assert re.findall(r"mismatch|out of order|exception|not fully", output, re.IGNORECASE) == []


def test_snapshots(directory: Path) -> None:
    newest = max(directory.glob("*.snapshot"))
    output = dump([newest])
    assert re.search(
        r"producerId: 5 .* coordinatorEpoch: 19 currentTxnFirstOffset: OptionalLong.empty", output
    )
    open_one = r"producerId: 7 .* coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong\[\d+\]"
    assert re.search(open_one, output), output


def test_index_sanity_check(directory: Path) -> None:
    output = dump(list(directory.glob("*.txnindex")), "--index-sanity-check")
    assert "xception" not in output
