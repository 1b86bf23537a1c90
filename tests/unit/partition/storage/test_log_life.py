import errno

import pytest

from highwater.partition.storage.log_life import LogLife


@pytest.mark.parametrize(
    ("ended", "code", "excused"),
    [
        (True, errno.ENOENT, True),
        (True, errno.EBADF, True),
        (True, errno.EIO, False),
        (False, errno.ENOENT, False),
        (False, errno.EIO, False),
    ],
)
def test_only_files_of_a_deleted_log_may_be_missing(ended: bool, code: int, excused: bool) -> None:
    life = LogLife()
    life.ended = ended
    assert life.excuses(OSError(code, "")) is excused
