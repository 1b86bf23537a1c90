"""Uncached records are read on a thread, a few at a time, and only once."""

import pytest

from highwater.partition.replication.leader import cold_reads as module
from highwater.partition.replication.leader.cold_reads import ColdReads
from highwater.partition.replication.leader.session_row import SessionRow
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.environment import InlineEnvironment
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import stored
from tests.unit.partition.data_plane.roles import NODE, image_says
from tests.unit.partition.replication.leader_side import FOLLOWER, Leader, place


class SlowEnvironment(InlineEnvironment):
    """Reads end when the test says so."""

    def __init__(self):
        super().__init__()
        self.jobs = []

    def run_later(self, work, done):
        self.jobs.append((work, done))

    def end(self, count=1):
        for _ in range(count):
            work, done = self.jobs.pop(0)
            work()
            done()


@pytest.fixture
def slow():
    return SlowEnvironment()


@pytest.fixture
def leader(tmp_path, slow):
    made = Leader(tmp_path)
    for n in range(4):
        made.add_led(n, environment=slow)
        made.append(make_batch(value=b"v" * 1000), make_batch(), partition=n)
    return made


@pytest.fixture
def looked():
    return []


@pytest.fixture
def reads(looked):
    return ColdReads(looked.append)


def found_in(row, max_bytes=1 << 20):
    log = row.replica.log
    return log.reader.read(0, max_bytes, end_offset=log.log_end_offset)


@pytest.fixture
def rows(leader):
    replicas = leader.plane.replicas
    return [SessionRow(place(0, n), replicas[place(0, n)[:2]], lambda _row: None) for n in range(4)]


def test_records_come_when_they_are_read(reads, rows, slow, looked):
    row = rows[0]
    found = found_in(row)
    assert reads.take(row, found) is None
    assert row in reads
    assert found.segment.pins == 1
    assert reads.take(row, found) is None
    assert len(slow.jobs) == 1, "one read, however often it is looked for"
    slow.end()
    assert looked == [row]
    assert found.segment.pins == 0
    assert bytes(reads.take(row, found)) == stored(row.replica)
    assert len(reads) == 0


def test_read_records_are_cut_to_the_present_limit(reads, rows, slow):
    row = rows[0]
    assert reads.take(row, found_in(row)) is None
    slow.end()
    less = found_in(row, 1100)
    assert 0 < less.length < len(stored(row.replica))
    assert bytes(reads.take(row, less)) == stored(row.replica)[: less.length]


def test_records_appended_after_the_read_are_not_needed(reads, rows, slow):
    row = rows[0]
    less = found_in(row, 1100)
    reads.take(row, less)
    slow.end()
    assert len(reads.take(row, found_in(row))) == less.length


def test_another_place_is_read_again(reads, rows, slow):
    row = rows[0]
    reads.take(row, found_in(row))
    slow.end()
    following = row.replica.log.reader.read(1, 1 << 20, end_offset=2)
    assert reads.take(row, following) is None
    slow.end()
    assert bytes(reads.take(row, following)) == stored(row.replica)[-following.length :]


def test_records_read_in_an_earlier_leadership_are_read_again(reads, rows, slow):
    row = rows[0]
    found = found_in(row)
    reads.take(row, found)
    slow.end()
    image_says(row.replica, leader=NODE, epoch=9, replicas=(NODE, FOLLOWER))
    assert reads.take(row, found) is None
    assert len(slow.jobs) == 1


def test_a_file_that_is_too_short_is_reported(reads, rows, slow):
    row = rows[0]
    found = found_in(row)
    reads.take(row, found)
    row.replica.log._place.environment.filesystem.ftruncate(found.segment.open(), 5)
    slow.end()
    with pytest.raises(LogDirFailure, match=f"5 of {found.length} bytes"):
        reads.take(row, found)
    assert len(reads) == 0


@pytest.mark.parametrize(("name", "value"), [("READS_MAX", 2), ("BYTES_MAX", 2_500)])
def test_few_are_read_at_a_time_and_the_others_have_their_turn(
    reads, rows, slow, looked, monkeypatch, name, value
):
    monkeypatch.setattr(module, name, value)
    for row in rows:
        assert reads.take(row, found_in(row)) is None
    assert (len(slow.jobs), len(reads)) == (2, 4)
    slow.end()
    assert looked == [rows[0]], "what was read counts until it is taken"
    assert reads.take(rows[0], found_in(rows[0])) is not None
    assert looked == [rows[0], rows[2]]
    assert reads.take(rows[2], found_in(rows[2])) is None
    assert len(slow.jobs) == 2


def test_a_read_larger_than_all_goes_alone(reads, rows, slow, monkeypatch):
    monkeypatch.setattr(module, "BYTES_MAX", 10)
    for row in rows[:2]:
        reads.take(row, found_in(row))
    assert len(slow.jobs) == 1


def test_a_removed_row_makes_room(reads, rows, slow, looked, monkeypatch):
    monkeypatch.setattr(module, "READS_MAX", 1)
    for row in rows:
        reads.take(row, found_in(row))
    reads.forget(rows[1])
    assert looked == []
    reads.forget(rows[0])
    assert looked == [rows[2]]
    slow.end()
    assert looked == [rows[2]], "nobody waits for those bytes any more"
    assert rows[0].replica.log.extent.active.pins == 0


def test_no_callbacks_after_close(reads, rows, slow, looked):
    for row in rows:
        reads.take(row, found_in(row))
    reads.clear()
    slow.end(4)
    assert looked == []
    assert len(reads) == 0
