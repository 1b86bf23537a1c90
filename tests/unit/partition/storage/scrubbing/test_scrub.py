"""Checks one piece of a closed segment; finds every changed bit that a checksum covers."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.scrubbing.scrub import PIECE_BYTES, Piece, SegmentFile, check_piece
from tests.support.log_batches import append, make_batch, open_log

FILES = FileSystem()
RECORDS = 2


def closed_segment(directory: Path, *values: int) -> SegmentFile:
    """Batches of two records, with values of these sizes."""
    log = open_log(directory)
    for size in values:
        append(log, make_batch(timestamps=(1, 2), value=b"v" * size), epoch=0)
    log.roll()
    segment = log.extent.all[0]
    file = SegmentFile(
        path=segment.file,
        inode=segment.inode,
        size=segment.size,
        base_offset=0,
        next_base_offset=log.log_end_offset,
    )
    log.close(clean=False)
    return file


def check_all(file: SegmentFile) -> Piece:
    """Checks piece by piece up to the end or the first damage."""
    position, expected, nbytes = 0, 0, 0
    while True:
        piece = check_piece(FILES, file, position, expected)
        nbytes += piece.nbytes
        if piece.damage or piece.gone or piece.position == file.size:
            return piece
        assert piece.position > position
        position, expected = piece.position, piece.next_offset


def flip(path: str, position: int, bits: int = 1) -> None:
    with Path(path).open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ bits]))


def test_sound_segments_of_all_sizes(tmp_path: Path) -> None:
    sizes = (10, PIECE_BYTES // 3, PIECE_BYTES // 3, 3 * PIECE_BYTES, 1, PIECE_BYTES, 7)
    file = closed_segment(tmp_path / "topic-0", *sizes)
    piece = check_all(file)
    assert (piece.damage, piece.next_offset) == ("", RECORDS * len(sizes))


def test_one_bit_anywhere(tmp_path: Path) -> None:
    file = closed_segment(tmp_path / "topic-0", 5, 5, 5)
    size = file.size // 3
    for position in range(file.size):
        inside = position % size
        flip(file.path, position)
        piece = check_all(file)
        flip(file.path, position)
        if 12 <= inside < 16:
            assert not piece.damage, "the leader epoch is under no checksum"
        else:
            assert piece.damage, position
            number = position // size
            at = piece.position // size
            # A too high offset is noticed only because the next one does not follow it.
            assert at == number or (inside < 8 and at == number + 1)
            assert piece.next_offset <= piece.damage_end <= file.next_base_offset
    assert not check_all(file).damage


def test_intact_batches_after_a_damaged_one_can_be_read(tmp_path: Path) -> None:
    file = closed_segment(tmp_path / "topic-0", 5, 5, 5)
    flip(file.path, file.size // 2)
    piece = check_all(file)
    assert (piece.next_offset, piece.damage_end) == (2, 4)
    flip(file.path, file.size // 3 + 16)
    piece = check_all(file)
    assert (piece.next_offset, piece.damage_end) == (2, 6), "nobody knows where the next one is"


def test_a_replaced_file_is_not_checked(tmp_path: Path) -> None:
    file = closed_segment(tmp_path / "topic-0", 5, 5)
    os.truncate(file.path, file.size - 1)
    assert check_piece(FILES, file, 0, 0).gone
    Path(f"{file.path}.new").write_bytes(bytes(file.size))
    Path(f"{file.path}.new").replace(file.path)
    assert check_piece(FILES, file, 0, 0).gone
    Path(file.path).unlink()
    assert check_piece(FILES, file, 0, 0).gone


def test_a_bad_sector_is_the_directory_s_failure(tmp_path: Path) -> None:
    file = closed_segment(tmp_path / "topic-0", 5)
    broken = FileSystem()

    def fail(*_: int) -> bytes:
        raise OSError(5, "bad sector")

    broken.pread = fail
    with pytest.raises(LogDirFailure):
        check_piece(broken, file, 0, 0)


def test_a_length_that_has_rotted_does_not_fill_memory(tmp_path: Path) -> None:
    file = closed_segment(tmp_path / "topic-0", 10, 10)
    flip(file.path, 8, 1 << 4)  # 256 MiB more.
    size = 1 << 30
    os.truncate(file.path, size)
    read: list[int] = []
    files = FileSystem()

    def pread(fd: int, nbytes: int, position: int) -> bytes:
        read.append(nbytes)
        return os.pread(fd, nbytes, position) if nbytes <= PIECE_BYTES else b""

    files.pread = pread
    piece = check_piece(files, replace(file, size=size), 0, 0)
    assert (piece.damage, piece.next_offset) == ("there is no batch", 0)
    assert max(read) == PIECE_BYTES
