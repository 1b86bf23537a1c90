"""Aborted transactions of a log: written, found, and carried through everything that it goes through."""

import pytest

from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.errors import LogDirFailure
from tests.support.log_batches import ManualClock, append, make_batch, open_log
from tests.support.transactional_logs import end, indexed, write

SMALL = LogConfig(segment_bytes=260, index_interval_bytes=50)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "topic-0"


def stable(log, high_watermark=None):
    mark = log.log_end_offset if high_watermark is None else high_watermark
    return log.producers.states.transactions.last_stable_offset(mark)


def two_segments(directory):
    """A transaction that begins in the first segment and is aborted in the third."""
    log = open_log(directory, SMALL)
    write(log, 5)
    append(log, make_batch(), make_batch())
    log.roll()
    append(log, make_batch(value=b"x" * 100))
    log.roll()
    end(log, 5, commit=False)
    return log


def test_an_entry_is_in_the_segment_of_its_marker(directory):
    log = two_segments(directory)
    assert indexed(log) == [[], [], [AbortedTransaction(5, 0, 4, 5)]]
    names = sorted(path.name for path in directory.glob("*.txnindex"))
    assert names == ["00000000000000000004.txnindex"]


def test_a_roll_that_is_due_comes_before_the_entry(directory):
    log = open_log(directory, LogConfig(segment_bytes=200))
    write(log, 5, value=b"x" * 100)
    end(log, 5, commit=False)
    assert [segment.base_offset for segment in log.extent.all] == [0, 1]
    assert indexed(log) == [[], [AbortedTransaction(5, 0, 1, 2)]]


def test_commits_are_not_in_it(directory):
    log = open_log(directory)
    write(log, 5)
    end(log, 5, commit=True)
    end(log, 6, commit=False)
    assert indexed(log) == [[]]
    assert list(directory.glob("*.txnindex")) == []


def test_a_search_goes_on_in_later_segments(directory):
    log = two_segments(directory)
    [found] = log.transactions.aborted(0, 2)
    assert found == (5, 0)
    assert log.transactions.aborted(3, 4) == [found]
    log.roll()
    write(log, 5)
    end(log, 5, commit=False)
    assert log.transactions.aborted(0, 5) == [found], "the rest is known not to overlap"
    assert len(log.transactions.aborted(4, 7)) == 2
    assert len(log.transactions.packed()) == 68


def test_truncation_opens_what_had_ended(directory):
    log = two_segments(directory)
    write(log, 6)
    log.truncate_to(4)
    assert indexed(log)[-1] == []
    assert log.producers.states.transactions.open == {5: 0}
    assert stable(log) == 0
    end(log, 5, commit=True)
    assert stable(log) == log.log_end_offset
    log.truncate_to(0)
    assert log.producers.states.transactions.open == {}


def test_an_emptied_log_has_none(directory):
    log = two_segments(directory)
    write(log, 6)
    log.truncate_fully_and_start_at(100)
    assert indexed(log) == [[]]
    assert not log.producers.states.transactions.open
    assert log.transactions.aborted(100, 101) == []


def test_retention_takes_the_index_with_its_segment(directory):
    log = two_segments(directory)
    log.roll()
    append(log, make_batch())
    log.advance_start(5)
    assert list(directory.glob("*.txnindex")) == []


@pytest.mark.parametrize("how", ["clean", "killed", "power"])
def test_starts(directory, how):
    log = two_segments(directory)
    write(log, 6)
    write(log, 7)
    end(log, 7, commit=False)
    before, opened = indexed(log), log.producers.states.transactions.open
    assert opened == {6: 5}
    log.close(clean=how == "clean")
    again = open_log(directory, SMALL, clean=how == "clean", cache_intact=how == "killed")
    assert indexed(again) == before
    assert again.producers.states.transactions.open == opened
    assert stable(again) == 5


def test_a_start_after_a_power_cut_does_not_believe_the_files(directory):
    log = two_segments(directory)
    log.close(clean=False)
    [file] = directory.glob("*.txnindex")
    first = directory / "00000000000000000000.txnindex"
    for damage in (b"", file.read_bytes() * 2, b"?" * 34):
        file.write_bytes(damage)
        first.write_bytes(b"!" * 34)
        again = open_log(directory, SMALL)
        assert indexed(again) == [[], [], [AbortedTransaction(5, 0, 4, 5)]]
        again.close(clean=False)
    file.unlink()
    assert indexed(open_log(directory, SMALL))[-1] == [AbortedTransaction(5, 0, 4, 5)]


def test_an_entry_whose_marker_was_not_written_is_dropped(directory):
    log = two_segments(directory)
    write(log, 6)
    log.extent.active.transactions.append(AbortedTransaction(6, 5, 6, 7))
    log.close(clean=False)
    again = open_log(directory, SMALL, cache_intact=True)
    assert len(indexed(again)[-1]) == 1
    assert again.producers.states.transactions.open == {6: 5}


def test_a_damaged_index_is_rebuilt_when_it_is_read(directory):
    log = two_segments(directory)
    expected = log.transactions.aborted(0, 5)
    log.close(clean=True)
    [file] = directory.glob("*.txnindex")
    file.write_bytes(b"?" * 34)
    again = open_log(directory, SMALL, clean=True, recovery_point=log.log_end_offset)
    assert again.transactions.aborted(0, 5) == expected
    assert unchanged(again)


def unchanged(log):
    return indexed(log)[-1] == [AbortedTransaction(5, 0, 4, 5)]


def test_a_disk_that_fails(directory):
    log = two_segments(directory)
    write(log, 6)
    directory.rename(directory.with_name("gone"))
    with pytest.raises(LogDirFailure):
        end(log, 6, commit=False)


def test_what_has_just_ended_is_not_known_after_a_start(directory):
    clock = ManualClock()
    log = open_log(directory, SMALL, clock=clock)
    write(log, 5)
    end(log, 5, commit=True)
    log.roll()
    append(log, make_batch())
    log.close(clean=True)
    again = open_log(directory, SMALL, clean=True, recovery_point=3, high_watermark=1, clock=clock)
    transactions = again.producers.states.transactions
    assert not transactions.is_known(1)
    assert again.stored_stable_offset == 0
    again.stored_high_watermark = 3
    assert again.stored_stable_offset == 3


EXPIRED_MS = 25 * 3_600_000


def is_noticed(log):
    return log.producers.states.transactions.seen


@pytest.mark.parametrize("how", ["clean", "killed", "power"])
def test_a_start_notices_transactions_of_producers_that_have_expired(directory, how):
    clock = ManualClock()
    log = two_segments(directory)
    log.roll()
    append(log, make_batch())
    log.roll()
    append(log, make_batch())
    log.close(clean=how == "clean")
    clock.now_ms += EXPIRED_MS
    again = open_log(
        directory, SMALL, clock=clock, clean=how == "clean", cache_intact=how == "killed",
        recovery_point=log.log_end_offset,
    )  # fmt: skip
    again.producers.states.transactions.commit_to(again.log_end_offset)
    assert list(again.producers.expire()) == [1], "the last one that told of a marker"
    assert is_noticed(again)
    again.truncate_to(6)
    assert is_noticed(again)


def test_a_start_notices_a_damaged_index(directory):
    log = two_segments(directory)
    log.roll()
    append(log, make_batch())
    log.close(clean=True)
    [file] = directory.glob("*.txnindex")
    file.write_bytes(b"?" * 34)
    clock = ManualClock()
    clock.now_ms += EXPIRED_MS
    again = open_log(directory, SMALL, clock=clock, clean=True, recovery_point=6)
    assert is_noticed(again)
    assert again.transactions.aborted(0, 5) == [(5, 0)]


def test_a_log_without_aborted_transactions_notices_none(directory):
    log = open_log(directory)
    append(log, make_batch())
    log.close(clean=False)
    assert not is_noticed(open_log(directory))
