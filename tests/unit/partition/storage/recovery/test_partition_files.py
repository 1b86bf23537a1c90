from pathlib import Path

from highwater.partition.storage.recovery.partition_files import PartitionFiles
from tests.support.log_batches import append, make_batch, open_log


def files(tmp_path: Path) -> PartitionFiles:
    log = open_log(tmp_path / "topic-0")
    for _ in range(3):
        append(log, make_batch(), epoch=0)
        log.roll()
    log.close(clean=False)
    return PartitionFiles(log.directory, log._roll._factory)


def test_interrupted_deletions(tmp_path: Path) -> None:
    before = files(tmp_path)
    assert (before.first_base(), before.deleted_before(9)) == (0, False)
    path = tmp_path / "topic-0" / "00000000000000000000.log"
    path.rename(path.with_name(path.name + ".deleted"))
    found = PartitionFiles(before.directory, before._factory)
    assert (found.first_base(), found.deleted_before(1), found.deleted_before(0)) == (
        1,
        True,
        False,
    )
    path = tmp_path / "topic-0" / "00000000000000000001.log"
    path.rename(path.with_name(path.name.replace("1.log", "0.log") + ".swap"))
    assert PartitionFiles(before.directory, before._factory).first_base() == 0


def test_segments_are_kept_beside_the_log(tmp_path: Path) -> None:
    found = files(tmp_path)
    segments = found.segments()
    found.set_aside(segments[2:], 2)
    found.names = found.filesystem.listdir(found.directory)
    found.set_aside(segments[1:2], 2)
    (aside,) = tmp_path.glob("topic-0.*-stray")
    assert sorted(path.name for path in aside.glob("*.log")) == [
        "00000000000000000001.log",
        "00000000000000000002.log",
        "00000000000000000003.log",
    ]
    assert [path.name for path in (tmp_path / "topic-0").glob("*.log")] == [
        "00000000000000000000.log"
    ]
