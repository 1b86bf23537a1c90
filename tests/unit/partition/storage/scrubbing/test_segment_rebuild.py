"""A segment is rebuilt, a piece at a time; tests of `segment_repair` cover whole repairs."""

from pathlib import Path

import pytest

from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.storage.scrubbing import segment_rebuild
from highwater.partition.storage.scrubbing.scrub import SegmentFile
from highwater.partition.storage.scrubbing.segment_rebuild import SegmentGoneError, SegmentRebuild
from tests.unit.partition.storage.scrubbing.test_scrub import FILES, closed_segment, flip

SIZES = (50, 60, 70)


def rebuild(file: SegmentFile) -> SegmentRebuild:
    return SegmentRebuild(
        FILES,
        file,
        epochs=LeaderEpochCache([(0, 0)]),
        index_bytes=4096,
        index_interval=64,
        gaps=False,
    )


def test_a_new_file_has_the_intact_pieces_and_the_fetched_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_rebuild, "PIECE_BYTES", 100)
    file = closed_segment(tmp_path, *SIZES)
    before = Path(file.path).read_bytes()
    new = Path(file.path + ".cleaned")
    third = len(before) // 3
    flip(file.path, third + 20)
    aborted = Path(file.path).with_suffix(".txnindex")
    aborted.write_bytes(b"entries")
    made = rebuild(file)
    assert made.find(2, 4)
    middle = before[made.range.begin : made.range.end]
    made.restart()
    assert made.take(b"x" * 100)
    made.restart()
    assert (made.wanted, made.filled) == (2, False)
    assert made.take(middle) == ""
    assert (made.wanted, made.filled) == (4, True)
    pieces = 0
    while made.copy():
        pieces += 1
    assert pieces > 3
    made.finish()
    assert new.read_bytes() == before
    assert {path.name for path in tmp_path.glob("*.cleaned")} == {
        f"{0:020d}.{kind}.cleaned" for kind in ("log", "index", "timeindex", "txnindex")
    }
    assert Path(f"{aborted}.cleaned").read_bytes() == b"entries"
    made.close()
    made.remove()
    assert list(tmp_path.glob("*.cleaned")) == []
    assert Path(file.path).read_bytes() != before, "it is not touched"


def test_intact_records_need_no_repair(tmp_path: Path) -> None:
    made = rebuild(closed_segment(tmp_path, *SIZES))
    assert not made.find(2, 4)
    made.close()


def test_a_file_that_was_replaced(tmp_path: Path) -> None:
    file = closed_segment(tmp_path, *SIZES)
    path = Path(file.path)
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    other.rename(path)
    made = rebuild(file)
    with pytest.raises(SegmentGoneError):
        made.find(2, 4)
    made.close()
    path.unlink()
    with pytest.raises(SegmentGoneError):
        rebuild(file).find(2, 4)
