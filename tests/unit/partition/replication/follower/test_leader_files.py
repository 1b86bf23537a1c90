"""Reads places in a leader's files on this host: cached bytes, or None."""

import os

import pytest

from highwater.partition.replication.follower import leader_files as module
from highwater.partition.replication.follower.leader_files import LeaderFiles
from highwater.partition.replication.rows import SegmentPlace
from tests.unit.gateway.wires import open_descriptors


@pytest.fixture
def segment(tmp_path):
    path = tmp_path / "data" / "t-0" / "0.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(range(256)) * 200)
    (tmp_path / "data" / ".highwater_incarnation").write_text("first")
    return path


@pytest.fixture
def files(segment):
    made = LeaderFiles([str(segment.parent.parent)], "first")
    assert made.readable
    yield made
    made.close()


def place(segment, position=0, length=100, inode=None):
    inode = segment.stat().st_ino if inode is None else inode
    return SegmentPlace("t-0/0.log", 0, inode, position, length, 4)


def test_only_a_node_on_this_host_is_read(segment):
    directory = str(segment.parent.parent)
    assert not LeaderFiles((), "first").readable
    assert not LeaderFiles([directory], "second").readable
    assert not LeaderFiles([directory + "-elsewhere"], "first").readable


def test_the_bytes_are_valid_until_the_next_read(files, segment):
    first = files.read(place(segment, 256, 20))
    assert bytes(first) == bytes(range(20))
    second = files.read(place(segment, 300, 10))
    assert bytes(second) == bytes(range(44, 54))
    assert second.obj is first.obj, "no memory for each"
    large = files.read(place(segment, 0, 50_000))
    assert bytes(large) == segment.read_bytes()[:50_000]


def test_a_large_batch_has_memory_of_its_own(files, segment, monkeypatch):
    monkeypatch.setattr(module, "BUFFER_BYTES_MAX", 1000)
    large = files.read(place(segment, 0, 2000))
    assert len(large) == 2000
    assert len(files._buffer) == 0


@pytest.mark.parametrize("case", ["shorter", "gone", "another"])
def test_missing_places_must_be_requested_as_bytes(files, segment, case):
    promised = place(segment, 0, 51_200)
    if case == "shorter":
        os.truncate(segment, 51_199)
    elif case == "gone":
        segment.unlink()
    else:
        promised = place(segment, 0, 100, inode=1)
    assert files.read(promised) is None


def test_a_file_that_is_cut_while_it_is_known_is_noticed(files, segment):
    promised = place(segment, 40_000, 2_000)
    assert files.read(promised) is not None
    os.truncate(segment, 41_000)
    assert files.read(promised) is None


@pytest.mark.parametrize("answer", [0, 99, OSError(5, "Input/output error")])
def test_uncached_or_unreadable_bytes_must_be_requested(files, segment, monkeypatch, answer):
    def read_cached(_fd, _view, _position):
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(module, "read_cached", read_cached)
    assert files.read(place(segment)) is None


def test_files_are_closed(files, segment):
    before = open_descriptors()
    assert files.read(place(segment)) is not None
    assert open_descriptors() == before + 1
    segment.unlink()
    files.drop_deleted()
    assert open_descriptors() == before
