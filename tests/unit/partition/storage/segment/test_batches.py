import os
from pathlib import Path

import pytest

from highwater.partition.storage.errors import CorruptLogError
from highwater.partition.storage.segment import batches
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


@pytest.mark.parametrize("start", [0, 5])
def test_boundaries_in_memory(written: tuple[int, list[int], int], start: int) -> None:
    fd, positions, end = written
    position = positions[start]
    data = bytearray(os.pread(fd, end, position))
    for length in (10, 61, 150, 9500, 20_000, len(data) - 1, len(data)):
        part = data[:length]
        boundary, following = batches.last_boundary(
            os.pread, fd, position=position, limit=position + length
        )
        assert batches.last_boundary_in(part, position) == (boundary - position, following)
        for batch in (*positions[start:], end):
            after = min((p for p in (*positions, end) if p > batch), default=end + 1)
            fits = after <= position + length
            assert batches.fits(part, batch - position) == fits
    data[16] = 7
    with pytest.raises(CorruptLogError, match=f"position {position}:"):
        batches.last_boundary_in(data, position)


def test_headers_timestamps_and_sizes(written: tuple[int, list[int], int]) -> None:
    fd, positions, end = written
    walked = list(batches.headers(os.pread, fd, position=positions[4], limit=end))
    assert [position for position, _ in walked] == positions[4:]
    assert [fields[0] for _, fields in walked] == [100 + 3 * n for n in range(4, 40)]
    assert batches.largest_timestamp(os.pread, fd, position=0, limit=end) == (39, 219)
    assert batches.largest_timestamp(os.pread, fd, position=0, limit=positions[5]) == (7, 102)
    assert batches.max_timestamp_at(os.pread, fd, positions[20]) == 20
    assert batches.base_offset_at(os.pread, fd, positions[20]) == 160
    size = positions[21] - positions[20]
    assert batches.size_at(os.pread, fd, positions[20], positions[21]) == (size, 163)
    with pytest.raises(CorruptLogError):
        batches.size_at(os.pread, fd, positions[20], positions[21] - 1)


@pytest.mark.parametrize("shift", [1, 17, 40])
def test_positions_that_are_no_batch_boundary(
    written: tuple[int, list[int], int], shift: int
) -> None:
    fd, positions, end = written
    with pytest.raises(CorruptLogError):
        batches.find_batch(os.pread, fd, position=positions[2] + shift, limit=end, offset=10**6)


@pytest.mark.parametrize("less", [1, 100, 9000])
def test_a_batch_beyond_the_end_is_none(written: tuple[int, list[int], int], less: int) -> None:
    fd, positions, _ = written
    limit = positions[34] - less
    with pytest.raises(CorruptLogError):
        batches.find_batch(os.pread, fd, position=0, limit=limit, offset=10**6)
    with pytest.raises(CorruptLogError):
        list(batches.headers(os.pread, fd, position=0, limit=limit))


def test_where_a_batch_ends(written: tuple[int, list[int], int]) -> None:
    fd, positions, end = written

    def check(
        number: int, *, nbytes: int = 0, following: int = 0, limit: int = end, unread: int = 220
    ) -> None:
        ends = [*positions[1:], end]
        batches.check_end(
            os.pread,
            fd,
            position=positions[number],
            nbytes=ends[number] - positions[number] + nbytes,
            following=103 + 3 * number + following,
            limit=limit,
            end_offset=220,
            unread=unread,
        )

    for number in (0, 3, 38, 39):
        check(number)
    check(5, following=-1)  # As before a gap.
    check(5, nbytes=1, unread=118)
    check(5, limit=positions[6])
    for wrong in (
        {"nbytes": 1},
        {"nbytes": -1},
        {"following": 1},
        {"following": 110},
        {"limit": positions[6] - 1},
        {"limit": positions[6] + 1},
        {"following": 102, "unread": 118},
    ):
        with pytest.raises(CorruptLogError):
            check(5, **wrong)
    for wrong in ({"nbytes": 1}, {"nbytes": -1}, {"following": 1}):
        with pytest.raises(CorruptLogError):
            check(39, **wrong)
