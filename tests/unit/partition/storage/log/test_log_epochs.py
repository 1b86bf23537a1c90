"""Leader epochs and their checkpoint."""

from pathlib import Path

import pytest

from highwater.partition.storage import checkpoint
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.log.environment import InlineEnvironment
from tests.support.log_batches import (
    append,
    make_batch,
    open_log,
)
from tests.support.losing_disk import LosingFileSystem


@pytest.mark.parametrize("ending", ["flush", "roll", "clean"])
def test_an_epoch_below_the_recovery_point_survives_a_power_cut(
    tmp_path: Path, ending: str
) -> None:
    """No start looks for the epoch in these batches again, so its checkpoint is synced first."""
    directory = tmp_path / "topic-0"
    disk = LosingFileSystem(directory)
    log = open_log(directory, environment=InlineEnvironment(disk))
    append(log, make_batch(), epoch=0)
    log.durability.flush()
    append(log, make_batch(), make_batch(), epoch=3)
    append(log, make_batch(), epoch=7)
    if ending == "clean":
        log.close(clean=True)
    else:
        log.durability.flush() if ending == "flush" else log.roll()
        log.close(clean=False)
    recovery_point = log.durability.recovery_point
    assert recovery_point == 4
    disk.cut_power()
    again = open_log(directory, recovery_point=recovery_point, clean=ending == "clean")
    assert again.log_end_offset == 4
    assert again.epochs.cache.entries() == [(0, 0), (3, 1), (7, 3)]
    again.close(clean=False)


def test_truncated_epochs_stay_removed_after_a_clean_stop(tmp_path: Path) -> None:
    """The log was synced before the truncation; only the epochs changed after that."""
    directory = tmp_path / "topic-0"
    disk = LosingFileSystem(directory)
    log = open_log(directory, environment=InlineEnvironment(disk))
    append(log, make_batch(), epoch=0)
    append(log, make_batch(), epoch=4)
    log.durability.flush()
    log.truncate_to(1)
    log.close(clean=True)
    disk.cut_power()
    again = open_log(directory, recovery_point=1, clean=True)
    assert again.epochs.cache.entries() == [(0, 0)]
    again.close(clean=False)


@pytest.mark.parametrize(
    ("late", "entries"),
    [
        pytest.param(1, [(0, 0), (1, 1)], id="the late epoch begins with the late records"),
        pytest.param(0, [(0, 0)], id="the late epoch has earlier records"),
    ],
)
def test_a_late_epoch_replaces_empty_ones_that_have_begun_there(
    tmp_path: Path, late: int, entries: list[tuple[int, int]]
) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    log.epochs.begin(5)
    log.epochs.assign_behind(late, 1)
    assert log.epochs.cache.entries() == entries
    assert log.epochs.appended == late
    assert checkpoint.read_epochs(FileSystem(), log.epochs.path) == entries
    log.close(clean=False)
