from pathlib import Path

import pytest

from highwater.partition.storage.cleaning import segment_batches
from highwater.partition.storage.cleaning.segment_batches import batches_of
from highwater.partition.storage.errors import CorruptLogError
from highwater.partition.storage.filesystem import FileSystem
from tests.support.log_batches import make_batch

BATCHES = [make_batch(base_offset=n * 2, timestamps=(1, 2), value=b"x" * n * 40) for n in range(9)]


def write(path: Path, data: bytes) -> tuple[FileSystem, str, int]:
    path.write_bytes(data)
    return FileSystem(), str(path), len(data)


@pytest.mark.parametrize("window", [61, 100, 1 << 20])
@pytest.mark.parametrize("from_offset", [0, 1, 2, 9, 17, 18])
def test_batches_from_an_offset_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int, from_offset: int
) -> None:
    monkeypatch.setattr(segment_batches, "WINDOW_BYTES", window)
    place = write(tmp_path / "log", b"".join(BATCHES))
    found = list(batches_of(*place, from_offset=from_offset))
    expected = [batch for n, batch in enumerate(BATCHES) if n * 2 + 2 > from_offset]
    assert [bytes(view.buf[view.start : view.end]) for view in found] == expected


@pytest.mark.parametrize("cut", [1, 30, 61, 70])
def test_a_file_that_ends_early(tmp_path: Path, cut: int) -> None:
    place = write(tmp_path / "log", b"".join(BATCHES)[:-cut])
    with pytest.raises(CorruptLogError):
        list(batches_of(*place))


@pytest.mark.parametrize("at", [0, 8, 16, 23, 30, -1])
def test_damage(tmp_path: Path, at: int) -> None:
    damaged = bytearray(BATCHES[3])
    damaged[at] ^= 0x80
    place = write(tmp_path / "log", b"".join([*BATCHES[:3], damaged, *BATCHES[4:]]))
    walk = batches_of(*place)
    if at == 0:  # The checksum does not cover the offset; only a negative one is invalid.
        assert [next(walk).base_offset for _ in range(3)] == [0, 2, 4]
    with pytest.raises(CorruptLogError):
        list(walk)
