import os
from pathlib import Path

import pytest

from highwater.partition.storage import batches
from highwater.partition.storage.errors import CorruptLogError
from tests.support.log_batches import make_batch


@pytest.fixture
def written(tmp_path: Path) -> tuple[int, list[int], int]:
    """(descriptor, position of each batch, end) of batches of 3 records, some large."""
    data, positions = b"", []
    for number in range(40):
        positions.append(len(data))
        size = 9000 if number % 10 == 3 else 20
        data += make_batch(
            base_offset=100 + 3 * number, timestamps=(number, 7, number), value=b"x" * size
        )
    (tmp_path / "log").write_bytes(data)
    fd = os.open(tmp_path / "log", os.O_RDONLY)
    return fd, positions, len(data)


def test_find_batch_from_any_boundary_before(written: tuple[int, list[int], int]) -> None:
    fd, positions, end = written
    for start in (0, 5, 30):
        for offset in range(100 + 3 * start, 220):
            number = (offset - 100) // 3
            found = batches.find_batch(
                os.pread, fd, position=positions[start], limit=end, offset=offset
            )
            assert found is not None
            assert found[:3] == (positions[number], 100 + 3 * number, 103 + 3 * number)
    assert batches.find_batch(os.pread, fd, position=0, limit=end, offset=220) is None


def test_last_boundary(written: tuple[int, list[int], int]) -> None:
    fd, positions, end = written
    assert batches.last_boundary(os.pread, fd, position=0, limit=end) == (end, 220)
    assert batches.last_boundary(os.pread, fd, position=0, limit=end - 1) == (positions[39], 217)
    assert batches.last_boundary(os.pread, fd, position=0, limit=positions[7] + 5) == (
        positions[7],
        121,
    )
    first = positions[1] - 1
    assert batches.last_boundary(os.pread, fd, position=0, limit=first) == (0, -1)


def test_headers_timestamps_and_sizes(written: tuple[int, list[int], int]) -> None:
    fd, positions, end = written
    walked = list(batches.headers(os.pread, fd, position=positions[4], limit=end))
    assert [position for position, _ in walked] == positions[4:]
    assert [fields[0] for _, fields in walked] == [100 + 3 * n for n in range(4, 40)]
    assert batches.largest_timestamp(os.pread, fd, position=0, limit=end) == (39, 219)
    assert batches.largest_timestamp(os.pread, fd, position=0, limit=positions[5]) == (7, 102)
    assert batches.max_timestamp_at(os.pread, fd, positions[20]) == 20
    assert batches.base_offset_at(os.pread, fd, positions[20]) == 160
    assert batches.size_at(os.pread, fd, positions[20]) == (positions[21] - positions[20], 163)


@pytest.mark.parametrize("shift", [1, 17, 40])
def test_what_is_no_batch_boundary(written: tuple[int, list[int], int], shift: int) -> None:
    fd, positions, end = written
    with pytest.raises(CorruptLogError):
        batches.find_batch(os.pread, fd, position=positions[2] + shift, limit=end, offset=10**6)
