"""Kafka's own DumpLogSegments reads and verifies our files, even while they are being written."""

import re
from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log import PartitionLog
from tests.support.java_tools import DUMP_LOG_SEGMENTS, java_tool
from tests.support.log_batches import ManualClock, append, make_batch

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

RECORDS_A_BATCH = 3
GROUPS = 60
GROUP = 4


@pytest.fixture(scope="module", params=["closed", "crashed", "in use"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of idempotent batches of all codecs, timestamps that go back, several segments."""
    path = tmp_path_factory.mktemp("dump") / "topic-0"
    clock = ManualClock()
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    log = PartitionLog.open(path, topic="topic", partition=0, config=config, clock=clock)
    number = 0
    for group in range(GROUPS):
        batches = []
        for _ in range(GROUP):
            now = clock.now_ms + 10 * number - 35 * (number % 4)
            batches.append(
                make_batch(
                    timestamps=(now, now + 3, now + 1),
                    value=b"value %d " % number * 10,
                    compression=number % 5,
                    producer_id=9,
                    producer_epoch=0,
                    base_sequence=number * RECORDS_A_BATCH,
                )
            )
            number += 1
        append(log, *batches, epoch=group // 25)
    assert len(log.extent.all) > 2
    if request.param == "closed":
        log.close(clean=True)
    elif request.param == "crashed":
        log.close(clean=False)
        PartitionLog.open(path, topic="topic", partition=0, config=config, clock=clock)
    return path


def dump(files: list[Path], *options: str) -> str:
    done = java_tool(
        DUMP_LOG_SEGMENTS, "--files", ",".join(str(file) for file in sorted(files)), *options
    )
    return done.stdout + done.stderr


def complaints(output: str) -> list[str]:
    """The tool's complaints about the files. It also complains about the offset before a segment's
    first one, in every segment but the first, even in Kafka's own files."""
    output = re.sub(r"Non-consecutive offsets in .*\n  -1 is followed by \d+\n", "", output)
    return re.findall(
        r"mismatch|out of order|non-consecutive|exception|not fully", output, re.IGNORECASE
    )


def test_batches_records_and_indexes(directory: Path) -> None:
    files = [*directory.glob("*.log"), *directory.glob("*.index"), *directory.glob("*.timeindex")]
    output = dump(files, "--deep-iteration", "--print-data-log")
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", output, re.MULTILINE)]
    assert sorted(offsets) == list(range(GROUPS * GROUP * RECORDS_A_BATCH))
    assert output.count("isvalid: true") == GROUPS * GROUP
    assert "isvalid: false" not in output
    assert complaints(output) == []
    epochs = re.findall(r"baseOffset: (\d+) .* partitionLeaderEpoch: (\d+) ", output)
    assert {int(epoch) for _, epoch in epochs} == {0, 1, 2}
    entries = re.findall(r"^offset: (\d+) position: (\d+)$", output, re.MULTILINE)
    stamps = re.findall(r"^timestamp: (\d+) offset: (\d+)$", output, re.MULTILINE)
    assert len(entries) > 20
    assert len(stamps) > 20


def test_index_sanity_check(directory: Path) -> None:
    sealed = sorted(directory.glob("*.index"))[:-1]
    output = dump(sealed, "--index-sanity-check")
    assert output.count("passed sanity check.") == len(sealed)


def test_producer_snapshots(directory: Path) -> None:
    snapshots = sorted(directory.glob("*.snapshot"))
    assert len(snapshots) >= 2
    output = dump(snapshots)
    found = re.findall(
        r"^producerId: 9 .* lastSequence: (\d+) lastOffset: (\d+)", output, re.MULTILINE
    )
    assert len(found) == len(snapshots), output
    assert all(sequence == offset for sequence, offset in found)


def test_the_tool_complains_about_wrong_index_entries(directory: Path, tmp_path: Path) -> None:
    """The checks above can fail: entries that are off by one byte and by one millisecond."""
    name = "00000000000000000000"
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / f"{name}{suffix}").write_bytes((directory / f"{name}{suffix}").read_bytes())
    for suffix, at in ((".index", 3), (".timeindex", 7)):
        data = bytearray((tmp_path / f"{name}{suffix}").read_bytes())
        data[at] += 1
        (tmp_path / f"{name}{suffix}").write_bytes(data)
    assert "ismatch" in dump([tmp_path / f"{name}.index"], "--deep-iteration")
    assert "ismatch" in dump([tmp_path / f"{name}.timeindex"], "--deep-iteration")
