import errno
from pathlib import Path

import pytest

from highwater.partition.storage.fallocate import FALLOC_FL_KEEP_SIZE, fallocate


def test_space_is_reserved_and_the_size_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"x")
        file.flush()
        fallocate(file.fileno(), FALLOC_FL_KEEP_SIZE, 1, 1 << 20)
    assert path.stat().st_size == 1
    assert path.stat().st_blocks * 512 >= 1 << 20


def test_refused_reservations_raise() -> None:
    with pytest.raises(OSError, match="Bad file descriptor") as refused:
        fallocate(-1, FALLOC_FL_KEEP_SIZE, 0, 1)
    assert refused.value.errno == errno.EBADF
