"""Finding batches by index, and indexes that are wrong."""

from pathlib import Path

import pytest

from highwater.partition.storage.config import LogConfig
from tests.support.log_batches import (
    append,
    headers_in,
    make_batch,
    open_log,
    slice_bytes,
)
from tests.support.searches import found_by


@pytest.mark.parametrize("content", [b"", b"\0" * 80, b"\x01" * 13, b"\x7f" * 160])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_wrong_index_of_a_sealed_segment_is_rebuilt_when_it_is_used(
    tmp_path: Path, content: bytes, suffix: str
) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory, LogConfig(index_interval_bytes=100))
    for number in range(30):
        append(log, make_batch(timestamps=(1000 + number,)), epoch=0)
    log.roll()
    log.close(clean=True)
    (directory / f"00000000000000000000{suffix}").write_bytes(content)
    log = open_log(directory, LogConfig(index_interval_bytes=100), clean=True)
    for number in range(30):
        found = log.reader.read(number, 1, end_offset=30)
        assert headers_in(slice_bytes(found))[0].base_offset == number
        assert found_by(log.search.first_at_or_after(1000 + number)) == (1000 + number, number, 0)
    assert found_by(log.search.first_with_largest())[:2] == (1029, 29)


def test_the_index_of_another_segment_is_noticed_and_rebuilt(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    log = open_log(directory, LogConfig(index_interval_bytes=100))
    for number in range(30):
        append(log, make_batch(value=b"x" * (number % 7)), epoch=0)
    log.roll()
    for _ in range(30):
        append(log, make_batch(value=b"y" * 50))
    log.roll()
    log.close(clean=True)
    second = directory / "00000000000000000030.index"
    (directory / "00000000000000000000.index").write_bytes(second.read_bytes())
    log = open_log(directory, LogConfig(index_interval_bytes=100), clean=True)
    for offset in (29, 3, 17, 8, 0):
        found = log.reader.read(offset, 1, end_offset=60)
        assert headers_in(slice_bytes(found))[0].base_offset == offset
