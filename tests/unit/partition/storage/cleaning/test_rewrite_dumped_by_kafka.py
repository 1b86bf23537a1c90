"""Kafka's own DumpLogSegments reads and verifies a segment that we have compacted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from tests.support.compacted_logs import job_of, keyed_batch, rewritten
from tests.support.java_tools import DUMP_LOG_SEGMENTS, java_tool
from tests.support.log_batches import append, open_log

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

BATCHES = 60
KEYS = 7


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The new segment's files under Kafka's names, by suffix."""
    config = LogConfig(compact=True, index_interval_bytes=300)
    log = open_log(tmp_path / "table-0", config)
    for number in range(BATCHES):
        pairs = [(b"%d" % (number % KEYS), b"value %d " % number * 20), (b"one", b"%d" % number)]
        batch = keyed_batch(
            pairs,
            compression=number % 5,
            producer_id=9 if number == 20 else -1,
            base_sequence=0 if number == 20 else -1,
        )
        append(log, batch)
        if number % 25 == 24:
            log.roll()
    log.roll()
    append(log, keyed_batch([(b"active", None)]))
    rewritten(job_of(log))
    made = {}
    for path in Path(log.directory).glob("*.cleaned"):
        target = tmp_path / path.stem
        path.rename(target)
        made[target.suffix] = target
    return made


def test_batches_records_and_indexes(files: dict[str, Path]) -> None:
    paths = ",".join(str(files[suffix]) for suffix in (".log", ".index", ".timeindex"))
    done = java_tool(DUMP_LOG_SEGMENTS, "--files", paths, "--deep-iteration", "--print-data-log")
    output = done.stdout + done.stderr
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", output, re.MULTILINE)]
    newest = [2 * number for number in range(BATCHES - KEYS, BATCHES)]
    assert offsets == sorted([*newest, 2 * BATCHES - 1])
    assert "isvalid: false" not in output
    assert output.count("isvalid: true") == KEYS + 1, "and the header of the producer's last batch"
    assert re.search(r"baseOffset: 40 lastOffset: 41 count: 0 .* producerId: 9 ", output)
    for codec in ("NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"):
        assert f"compresscodec: {codec.lower()}" in output.lower()
    # Compaction leaves missing offsets; every other finding would be an error.
    others = re.sub(r"Non-consecutive offsets in .*\n(  -?\d+ is followed by \d+\n)*", "", output)
    assert re.findall(r"mismatch|out of order|exception|not fully", others, re.IGNORECASE) == []
    assert re.search(r"^offset: \d+ position: \d+$", output, re.MULTILINE)
    assert re.search(r"^timestamp: \d+ offset: \d+$", output, re.MULTILINE)
