import errno
import shutil
from pathlib import Path

import pytest

from highwater.partition.storage.log.environment import REMOVALS_MAX, InlineEnvironment, remove


def test_inline_does_everything_at_once_in_order(tmp_path: Path) -> None:
    environment = InlineEnvironment(open_files=3, open_maps=2)
    order: list[str] = []
    environment.run_later(lambda: order.append("work"), lambda: order.append("done"))
    environment.write_later(lambda: order.append("write"), lambda: order.append("written"))
    assert order == ["work", "done", "write", "written"]
    (tmp_path / "f").write_bytes(b"")
    environment.delete_later([str(tmp_path / "f")], 60_000)
    assert not (tmp_path / "f").exists()
    assert (environment.files.capacity, environment.maps.capacity) == (3, 2)


def test_remove_deletes_a_directory_and_accepts_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_bytes(b"")
    remove(str(tmp_path / "d"))
    remove(str(tmp_path / "d"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [errno.ENOTEMPTY, errno.ENOENT])
def test_remove_retries_when_a_late_snapshot_changes_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    rmtree, disturbed = shutil.rmtree, [error]

    def remove_tree(path: str) -> None:
        if disturbed:
            raise OSError(disturbed.pop(), "")
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", remove_tree)
    (tmp_path / "d").mkdir()
    remove(str(tmp_path / "d"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "d").mkdir()
    disturbed += [errno.EIO, error, error]
    with pytest.raises(OSError, match="5"):
        remove(str(tmp_path / "d"))
    disturbed[:] = [error] * REMOVALS_MAX
    with pytest.raises(OSError, match=str(error)):
        remove(str(tmp_path / "d"))
