"""Removing segments' files: renamed at once, removed later, in an order that survives crashes."""

import errno
from pathlib import Path

import pytest

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from tests.support.log_batches import append, make_batch, open_log, read_all


class Later(InlineEnvironment):
    """Only records which files it should remove."""

    def delete_later(self, paths: object, delay_ms: int) -> None:
        self.doomed = [Path(path).name for path in paths]  # type: ignore[attr-defined]
        self.delay_ms = delay_ms


def test_all_files_of_a_segment_are_renamed(tmp_path: Path) -> None:
    environment = Later()
    log = open_log(tmp_path / "topic-0", environment=environment)
    for _ in range(3):
        append(log, make_batch(), epoch=0)
        log.roll()
    log.stored_high_watermark = 3
    log.deletion.advance_start(2)
    assert environment.delay_ms == log.config.file_delete_delay_ms
    for name in environment.doomed:
        assert (tmp_path / "topic-0" / name).is_file()
    wanted = [(0, ".log"), (1, ".log"), (1, ".snapshot")]
    assert [name for name in environment.doomed if "index" not in name] == [
        f"{base:020d}{suffix}.deleted" for base, suffix in wanted
    ]
    assert len(environment.doomed) > len(wanted), "indexes, too"
    assert [segment.base_offset for segment in log.extent.all] == [2, 3]


@pytest.mark.parametrize("way", ["truncation", "deletion"])
def test_a_crash_in_between_leaves_no_hole(tmp_path: Path, way: str) -> None:
    filesystem = FileSystem()
    log = open_log(tmp_path / "topic-0", environment=InlineEnvironment(filesystem))
    for _ in range(5):
        append(log, make_batch(), epoch=0)
        log.roll()
    log.stored_high_watermark = 5
    rename = filesystem.rename
    left = 6  # All files of one segment, some of the next.

    def dying(*arguments: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EIO, "dead")
        rename(*arguments)

    filesystem.rename = dying
    with pytest.raises(LogDirFailure):
        log.truncate_to(1) if way == "truncation" else log.deletion.advance_start(4)
    found = [h.base_offset for h in read_all(open_log(tmp_path / "topic-0"))]
    assert found == list(range(found[0], found[-1] + 1))
    assert 1 < len(found) < 5
