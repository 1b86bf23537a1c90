import os
from pathlib import Path

import pytest

from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.segment import SegmentFactory
from tests.support.log_batches import make_batch


@pytest.fixture
def factory(tmp_path: Path) -> SegmentFactory:
    (tmp_path / "topic-0").mkdir()
    return SegmentFactory(
        str(tmp_path / "topic-0"),
        index_bytes=800,
        filesystem=FileSystem(),
        files=HandleClock(10),
        maps=HandleClock(10),
    )


def test_a_new_segment_replaces_what_was_left_with_its_name(
    factory: SegmentFactory, tmp_path: Path
) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / "topic-0" / f"00000000000000000007{suffix}").write_bytes(b"old")
    segment = factory.create(7, now_ms=5)
    assert segment.size == 0
    assert segment.path == "topic-0/00000000000000000007.log"
    assert Path(segment.file).stat().st_size == 0
    assert not Path(segment.index.file.path).exists()
    assert segment.largest_timestamp() == -1
    assert segment.created_ms == 5


def test_an_existing_segment_is_described_without_opening_it(factory: SegmentFactory) -> None:
    created = factory.create(7, now_ms=5)
    batch = make_batch(base_offset=7, timestamps=(50, 40))
    os.pwrite(created.fd, batch, 0)
    created.close()
    segment = factory.existing(7)
    assert (segment.size, segment.inode) == (len(batch), created.inode)
    assert segment.indexes_missing
    assert not segment.is_open()
    assert segment.open() == segment.fd
    with pytest.raises(FileNotFoundError):
        factory.existing(8)


def test_sealing_completes_the_indexes(factory: SegmentFactory) -> None:
    segment = factory.create(7, now_ms=5)
    batch = make_batch(base_offset=7, timestamps=(50, 40))
    os.pwrite(segment.fd, batch, 0)
    segment.size, segment.max_timestamp, segment.max_timestamp_offset = len(batch), 50, 8
    segment.seal()
    segment.close()
    again = factory.existing(7)
    assert not again.indexes_missing
    assert again.largest_timestamp() == 50
    assert again.max_timestamp_offset == 8
    assert again.timestamp_of_batch(7) == 50
    with pytest.raises(CorruptIndexError):
        again.timestamp_of_batch(9)


def test_the_last_time_index_entry_is_verified(factory: SegmentFactory) -> None:
    segment = factory.create(7, now_ms=5)
    batch = make_batch(base_offset=7, timestamps=(50,))
    os.pwrite(segment.fd, batch, 0)
    segment.size, segment.max_timestamp, segment.max_timestamp_offset = len(batch), 51, 7
    segment.seal()
    segment.close()
    with pytest.raises(CorruptIndexError):
        factory.existing(7).largest_timestamp()


def test_pins_keep_the_descriptor_over_close_and_moves(
    factory: SegmentFactory, tmp_path: Path
) -> None:
    segment = factory.create(7, now_ms=5)
    segment.release()
    segment.pin()
    segment.pin()
    segment.close()
    assert segment.is_open()
    segment.moved(str(tmp_path / "elsewhere"), ".deleted")
    assert segment.path == "elsewhere/00000000000000000007.log.deleted"
    assert segment.index.file.path.endswith("/elsewhere/00000000000000000007.index.deleted")
    segment.unpin()
    assert segment.is_open()
    segment.unpin()
    assert not segment.is_open()


def test_a_pin_that_cannot_open_the_file_is_none(factory: SegmentFactory) -> None:
    segment = factory.create(7, now_ms=5)
    segment.release()
    Path(segment.file).unlink()
    with pytest.raises(FileNotFoundError):
        segment.pin()
    assert segment.pins == 0
