"""Parts that `LogParts` lists are notified of rolls, truncations and the log start offset."""

from pathlib import Path

from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import append, make_batch, open_log


class Recorder:
    """Records each event, with the log's offsets at that moment."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.told: list[tuple[str, int, tuple[int, int]]] = []

    def _note(self, event: str, offset: int) -> None:
        self.told.append((event, offset, (self.log.log_start_offset, self.log.log_end_offset)))

    def rolled(self, base_offset: int) -> None:
        self._note("rolled", base_offset)

    def start_moved(self, offset: int) -> None:
        self._note("start moved", offset)

    def cut(self, end: int) -> None:
        self._note("cut", end)

    def emptied(self, offset: int) -> None:
        self._note("emptied", offset)


def recorded(log: PartitionLog) -> list[tuple[str, int, tuple[int, int]]]:
    recorder = Recorder(log)
    for part in (log._roll, log._truncation, log.deletion):
        part._listeners = (*part._listeners, recorder)
    return recorder.told


def test_parts_are_notified_after_segments_and_offsets_have_changed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    told = recorded(log)
    append(log, *[make_batch()] * 3, epoch=0)
    log.roll()
    append(log, *[make_batch()] * 3, epoch=0)
    log.deletion.advance_start(2)
    log.truncate_to(4)
    log.truncate_fully_and_start_at(9)
    assert told == [
        ("rolled", 3, (0, 3)),
        ("start moved", 2, (2, 6)),
        ("cut", 4, (2, 4)),
        ("emptied", 9, (9, 9)),
    ]
    log.close(clean=True)


def test_an_emptied_log_has_no_lost_ranges_and_no_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, *[make_batch()] * 3, epoch=2)
    log.durability.flush()
    log.lost.add(1, 2)
    log.truncate_fully_and_start_at(9)
    assert log.lost.ranges == ()
    assert log.epochs.cache.entries() == []
    assert log.durability.recovery_point == 9
    log.close(clean=True)
    again = open_log(tmp_path / "topic-0", clean=True, recovery_point=9, log_start_offset=9)
    assert (again.lost.ranges, again.log_end_offset) == ((), 9)
    again.close(clean=True)
