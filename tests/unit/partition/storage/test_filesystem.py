import os
from pathlib import Path

import pytest

from highwater.partition.storage.filesystem import (
    FileSystem,
    read_file,
    replace_file,
    unlink_if_present,
    write_all,
)


def test_write_all_goes_on_after_short_writes(tmp_path: Path) -> None:
    files = FileSystem()
    write = files.pwritev
    files.pwritev = lambda fd, buffers, position: write(fd, [buffers[0][:3]], position)
    fd = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    write_all(files, fd, b"0123456789", 5)
    os.close(fd)
    assert (tmp_path / "f").read_bytes() == b"\0" * 5 + b"0123456789"


def test_read_file_is_limited_and_goes_on_after_short_reads(tmp_path: Path) -> None:
    files = FileSystem()
    (tmp_path / "f").write_bytes(b"0123456789")
    files.pread = lambda fd, n, position: os.pread(fd, min(n, 4), position)
    assert read_file(files, str(tmp_path / "f"), limit=10) == b"0123456789"
    with pytest.raises(ValueError, match="more than 9"):
        read_file(files, str(tmp_path / "f"), limit=9)


@pytest.mark.parametrize("step", ["pwritev", "fsync", "rename"])
def test_a_replacement_that_fails_leaves_the_old_file(tmp_path: Path, step: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    files = FileSystem()

    def fail(*_: object) -> int:
        raise OSError(5, "broken")

    setattr(files, step, fail)
    with pytest.raises(OSError, match="broken"):
        replace_file(files, str(path), b"new", temporary=f"{path}.tmp", durable=True)
    assert path.read_bytes() == b"old"
    replace_file(FileSystem(), str(path), b"new", temporary=f"{path}.tmp", durable=True)
    assert path.read_bytes() == b"new"


def test_durable_means_synced_before_it_has_its_name(tmp_path: Path) -> None:
    files, order = FileSystem(), []
    for name in ("pwritev", "fsync", "rename"):
        function = getattr(files, name)
        setattr(
            files,
            name,
            lambda *a, name=name, function=function: order.append(name) or function(*a),
        )
    replace_file(files, str(tmp_path / "f"), b"x", temporary=str(tmp_path / "t"), durable=True)
    assert order == ["pwritev", "fsync", "rename", "fsync"]
    order.clear()
    replace_file(files, str(tmp_path / "f"), b"x", temporary=str(tmp_path / "t"), durable=False)
    assert order == ["pwritev", "rename"]


def test_unlink_if_present(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    unlink_if_present(FileSystem(), str(tmp_path / "f"))
    unlink_if_present(FileSystem(), str(tmp_path / "f"))
    assert list(tmp_path.iterdir()) == []
