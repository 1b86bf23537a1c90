from pathlib import Path

import pytest

from highwater.partition.storage.directory.log_directory import (
    DirectoryIdentity,
    DirectoryOffsets,
    LogDirectory,
)
from highwater.partition.storage.errors import (
    CorruptCheckpointError,
    LogDirFailure,
    LogDirInUseError,
)
from highwater.partition.storage.filesystem import FileSystem
from tests.support.losing_disk import LosingFileSystem


def opened(path: Path) -> LogDirectory:
    directory = LogDirectory(str(path), FileSystem())
    directory.open()
    return directory


def test_identity_is_kept_and_the_directory_id_never_changes(tmp_path: Path) -> None:
    directory = opened(tmp_path / "new")
    assert directory.identity == DirectoryIdentity()
    directory.write_identity(node_id=4, cluster_id="abc")
    first = directory.identity
    assert len(first.directory_id) == 22
    directory.close()
    directory = opened(tmp_path / "new")
    assert directory.identity == first
    directory.write_identity(node_id=5, cluster_id="abc")
    assert directory.identity.directory_id == first.directory_id
    directory.close()


def test_the_lock(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    with pytest.raises(LogDirInUseError):
        opened(tmp_path)
    directory.close()
    opened(tmp_path).close()


def test_clean_shutdown_is_reported_once(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    assert (directory.clean, directory.previous_node_epoch) == (False, -1)
    directory.write_clean_shutdown(42)
    directory.close()
    directory = opened(tmp_path)
    assert (directory.clean, directory.previous_node_epoch) == (True, 42)
    directory.close()
    directory = opened(tmp_path)
    assert (directory.clean, directory.previous_node_epoch) == (False, -1)
    directory.close()


def test_clean_shutdown_is_reported_once_even_after_a_power_cut(tmp_path: Path) -> None:
    disk = LosingFileSystem(tmp_path)
    directory = LogDirectory(str(tmp_path), disk)
    directory.open()
    directory.write_clean_shutdown(42)
    directory.close()
    for clean in (True, False):
        directory = LogDirectory(str(tmp_path), disk)
        directory.open()
        assert directory.clean == clean
        directory.close()
        disk.cut_power()


@pytest.mark.parametrize("text", ["", "{}", "[1]", "\xff"])
def test_a_clean_shutdown_file_of_an_old_kafka(tmp_path: Path, text: str) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_bytes(text.encode("latin-1"))
    directory = opened(tmp_path)
    assert (directory.clean, directory.previous_node_epoch) == (True, -1)
    directory.close()


def test_offsets(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    offsets = DirectoryOffsets(
        recovery_points={("t", 0): 5}, high_watermarks={("t", 0): 4}, log_starts={("u-v", 1): 2}
    )
    directory.write_offsets(offsets)
    assert directory.offsets() == offsets
    (tmp_path / "replication-offset-checkpoint").write_text("nonsense")
    assert directory.offsets().high_watermarks == {}
    assert directory.offsets().recovery_points == {("t", 0): 5}
    assert directory.cleaned() == {}
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    assert directory.cleaned() == {("t", 0): 3}
    directory.write_cleaned({("t", 0): 5, ("u", 1): 0})
    assert directory.cleaned() == {("t", 0): 5, ("u", 1): 0}
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n2\nt 0 5\nu 1 0\n"
    directory.close()


def test_partition_directories_and_others(tmp_path: Path) -> None:
    for name in ("b-1", "a-b-0", "__cluster_metadata-0", "c-0.abc-delete", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").write_bytes(b"")
    directory = opened(tmp_path)
    assert directory.partitions() == [("a-b", 0), ("b", 1)]
    assert directory.deleted_directories() == [str(tmp_path / "c-0.abc-delete")]
    directory.close()


def test_broken_meta_properties(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("node.id=x\n")
    with pytest.raises(CorruptCheckpointError):
        opened(tmp_path)


def test_writes_that_fail(tmp_path: Path) -> None:
    directory = opened(tmp_path)

    def fail(*_: object) -> int:
        raise OSError(28, "full")

    directory.filesystem.pwritev = fail
    with pytest.raises(LogDirFailure):
        directory.write_identity(node_id=1, cluster_id="c")
    with pytest.raises(LogDirFailure):
        directory.write_clean_shutdown(1)
    with pytest.raises(LogDirFailure):
        directory.write_offsets(
            DirectoryOffsets(recovery_points={}, high_watermarks={}, log_starts={})
        )
    directory.close()
