"""Entries in Kafka's bytes, and what a damaged file does."""

import struct

import pytest

from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.storage.errors import CorruptIndexError
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.segment import transaction_index
from highwater.partition.storage.segment.handles import HandleClock
from highwater.partition.storage.segment.transaction_index import (
    ENTRY_BYTES,
    TransactionIndex,
    pack,
    unpack_all,
)

FIRST = AbortedTransaction(5, 10, 14, 12)
SECOND = AbortedTransaction(6, 12, 20, 18)
THIRD = AbortedTransaction(5, 18, 30, 31)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "00000000000000000000.txnindex"


def index_at(path, *entries):
    stored = path.stat().st_size if path.exists() else 0
    index = TransactionIndex(
        str(path), stored_bytes=stored, filesystem=FileSystem(), maps=HandleClock(4)
    )
    for entry in entries:
        index.append(entry)
    return index


def search(index, first, end):
    """(what overlaps the range, whether that is all)."""
    collected = []
    return collected, index.collect(first, end, collected)


def test_kafkas_bytes(path):
    index_at(path, FIRST)
    assert path.read_bytes() == struct.pack(">hqqqq", 0, 5, 10, 14, 12)
    assert ENTRY_BYTES == 34
    assert unpack_all(pack(FIRST) + pack(SECOND) + b"cut") == [FIRST, SECOND]


def test_no_file_without_entries(path):
    index = index_at(path)
    index.reset()
    index.truncate(0)
    assert len(index) == 0
    assert list(index.entries()) == []
    assert index.packed() == b""
    assert not path.exists()


def test_entries_by_their_markers(path):
    index = index_at(path, FIRST, SECOND, THIRD)
    assert list(index.entries()) == [FIRST, SECOND, THIRD]
    assert list(index.entries(15)) == [SECOND, THIRD]
    assert list(index.entries(31)) == []
    assert list(index_at(path).entries()) == [FIRST, SECOND, THIRD]


@pytest.mark.parametrize(
    ("first", "end", "found", "complete"),
    [
        (0, 10, [], True),
        (0, 11, [FIRST], True),
        (0, 13, [FIRST, SECOND], True),
        (15, 18, [SECOND], True),
        (15, 19, [SECOND, THIRD], True),
        (21, 31, [THIRD], True),
        (21, 32, [THIRD], False),
        (31, 40, [], False),
    ],
)
def test_what_overlaps_a_range(path, first, end, found, complete):
    told = [(one.producer_id, one.first_offset) for one in found]
    index = index_at(path, FIRST, SECOND, THIRD)
    for _ in range(2):  # From the file, then from memory.
        assert search(index, first, end) == (told, complete)
    assert index.is_open()


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_a_large_index_stays_in_its_file(path, monkeypatch, chunk):
    index = index_at(path, FIRST, SECOND, THIRD)
    monkeypatch.setattr(transaction_index, "KEPT_ENTRIES_MAX", 2)
    monkeypatch.setattr(transaction_index, "CHUNK_ENTRIES", chunk)
    assert search(index, 0, 13) == ([(5, 10), (6, 12)], True)
    assert search(index, 15, 40) == ([(6, 12), (5, 18)], False)
    assert search(index, 31, 40) == ([], False)
    assert not index.is_open()


def test_what_is_in_memory_follows_the_file(path, monkeypatch):
    monkeypatch.setattr(transaction_index, "KEPT_ENTRIES_MAX", 2)
    index = index_at(path, FIRST)
    assert search(index, 0, 40) == ([(5, 10)], False)
    index.append(SECOND)
    assert search(index, 0, 40) == ([(5, 10), (6, 12)], False)
    assert index.is_open()
    index.append(THIRD)
    assert not index.is_open(), "it is large now"
    assert search(index, 0, 40)[0] == [(5, 10), (6, 12), (5, 18)]
    index.truncate(20)
    assert search(index, 0, 40)[0] == [(5, 10)]
    index.put(SECOND)
    assert search(index, 0, 40)[0] == [(5, 10)], "not taken yet"
    index.take()
    assert search(index, 0, 40)[0] == [(5, 10), (6, 12)]
    index.reset()
    assert search(index, 0, 40) == ([], False)


def test_memory_is_given_up_where_too_many_indexes_are_open(tmp_path):
    maps = HandleClock(2)
    indexes = []
    for number in range(4):
        file = tmp_path / str(number)
        file.write_bytes(pack(FIRST))
        indexes.append(
            TransactionIndex(
                str(file), stored_bytes=ENTRY_BYTES, filesystem=FileSystem(), maps=maps
            )
        )
        assert search(indexes[-1], 0, 40) == ([(5, 10)], False)
    assert sum(index.is_open() for index in indexes) <= 2
    assert [search(index, 0, 40) for index in indexes] == [([(5, 10)], False)] * 4


def test_truncation(path):
    index = index_at(path, FIRST, SECOND, THIRD)
    index.truncate(20)
    assert list(index.entries()) == [FIRST]
    assert path.stat().st_size == ENTRY_BYTES
    index.append(THIRD)
    assert list(index_at(path).entries()) == [FIRST, THIRD]


@pytest.mark.parametrize(
    "damaged",
    [
        pack(SECOND) + pack(FIRST),
        struct.pack(">hqqqq", 1, 5, 10, 14, 12),
        bytes(ENTRY_BYTES),
        struct.pack(">hqqqq", 0, 5, 14, 14, 12),
    ],
)
def test_a_damaged_file_is_noticed_by_its_reader(path, damaged):
    path.write_bytes(damaged)
    index = index_at(path)
    index.truncate(5)  # Which leaves it damaged.
    for read in (index.packed, lambda: list(index.entries())):
        with pytest.raises(CorruptIndexError):
            read()
    index.reset()
    index.append(FIRST)
    assert list(index.entries()) == [FIRST]


def test_half_an_entry_at_the_end_is_none(path):
    path.write_bytes(pack(FIRST) + pack(SECOND)[:20])
    index = index_at(path)
    assert list(index.entries()) == [FIRST]
    index.append(THIRD)
    assert list(index_at(path).entries()) == [FIRST, THIRD]
