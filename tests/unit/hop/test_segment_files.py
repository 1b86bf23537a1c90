"""Segment files of a node on this host: only its own, only promised ranges, closed at the end."""

import os
from types import SimpleNamespace

import pytest

from highwater.hop import segment_files as module
from highwater.hop.segment_files import SegmentFiles, StaleReferenceError
from tests.unit.gateway.wires import open_descriptors


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / "data"
    (made / "t-0").mkdir(parents=True)
    (made / ".highwater_incarnation").write_text("token")
    (made / "t-0" / "0.log").write_bytes(b"0123456789")
    return made


@pytest.fixture
def files(directory):
    made = SegmentFiles([str(directory)], "token")
    yield made
    made.close()


def named(path, name="t-0/0.log", *, log_dir=0, inode=None):
    return SimpleNamespace(
        path=name,
        log_dir=log_dir,
        inode=path.stat().st_ino if inode is None else inode,
    )


def content(found):
    return os.pread(found.fd, found.length, found.position)


def test_a_promised_range_can_be_read(directory, files):
    path = directory / "t-0" / "0.log"
    found = files.open(named(path), 3, 4)
    assert content(found) == b"3456"
    found.release()


def test_only_directories_with_the_token_are_read(directory, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    assert SegmentFiles([str(directory)], "token").readable
    assert not SegmentFiles([str(directory)], "another").readable
    assert not SegmentFiles([str(directory), str(other)], "token").readable
    assert not SegmentFiles([str(tmp_path / "none")], "token").readable
    assert not SegmentFiles([], "token").readable
    (other / ".highwater_incarnation").write_text("token\n")
    assert SegmentFiles([str(directory), str(other)], "token").readable


def test_paths_stay_inside_the_directory(directory, files, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789")
    (directory / "link.log").symlink_to(secret)
    for name in ("../secret", "t-0/../../secret", str(secret), "link.log"):
        with pytest.raises(StaleReferenceError):
            files.open(named(secret, name), 0, 1)
    with pytest.raises(StaleReferenceError):
        files.open(named(directory / "t-0" / "0.log", log_dir=1), 0, 1)


def test_another_or_missing_or_shorter_file_is_refused(directory, files):
    path = directory / "t-0" / "0.log"
    before = open_descriptors()
    for wrong, position, length in (
        (named(path, inode=1), 0, 1),
        (named(path, "t-0/1.log"), 0, 1),
        (named(path), 8, 3),
    ):
        with pytest.raises(StaleReferenceError):
            files.open(wrong, position, length)
    files.close()
    assert open_descriptors() == before


def test_a_file_that_grows_is_looked_at_again(directory, files):
    path = directory / "t-0" / "0.log"
    first = files.open(named(path), 0, 10)
    with path.open("ab") as log:
        log.write(b"abcdef")
    second = files.open(named(path), 10, 6)
    assert content(second) == b"abcdef"
    assert first.fd == second.fd
    assert files.open_files == 1
    first.release()
    second.release()


def test_a_deleted_file_stays_readable_while_it_is_known(directory, files):
    path = directory / "t-0" / "0.log"
    promise = named(path)
    first = files.open(promise, 0, 10)
    path.unlink()
    second = files.open(promise, 0, 10)
    assert content(second) == b"0123456789"
    first.release()
    second.release()


def test_removed_files_are_closed_after_the_last_read(directory, files, monkeypatch):
    monkeypatch.setattr(module, "FILES_PER_LOOK", 3)
    before = open_descriptors()
    found = []
    for n in range(7):
        path = directory / "t-0" / f"{n}.log"
        path.write_bytes(b"x" * 10)
        found.append(files.open(named(path, f"t-0/{n}.log"), 0, 5))
    for one in found[1:]:
        one.release()
    for n in range(6):
        (directory / "t-0" / f"{n}.log").unlink()
    for _ in range(3):
        files.drop_deleted()
    assert open_descriptors() == before + 2, "one is being read, one is still there"
    assert content(found[0]) == b"xxxxx"
    found[0].release()
    assert open_descriptors() == before + 1
    files.drop_deleted()
    assert open_descriptors() == before + 1


def test_equal_inode_numbers_in_two_directories_are_two_files(directory, tmp_path, monkeypatch):
    other = tmp_path / "other"
    (other / "t-0").mkdir(parents=True)
    (other / "t-0" / "0.log").write_bytes(b"abcdefghij")
    (other / ".highwater_incarnation").write_text("token")
    real = os.fstat
    monkeypatch.setattr(
        module.os,
        "fstat",
        lambda fd: SimpleNamespace(st_ino=77, st_size=real(fd).st_size),
    )
    files = SegmentFiles([str(directory), str(other)], "token")
    one = files.open(named(None, inode=77), 0, 3)
    two = files.open(named(None, inode=77, log_dir=1), 0, 3)
    assert (content(one), content(two)) == (b"012", b"abc")
    one.release()
    two.release()
    files.close()


def test_few_files_stay_open_and_used_ones_until_release(directory, monkeypatch):
    monkeypatch.setattr(module, "OPEN_FILES_MAX", 2)
    before = open_descriptors()
    files = SegmentFiles([str(directory)], "token")
    found = []
    for n in range(5):
        path = directory / "t-0" / f"{n}.log"
        path.write_bytes(b"%d" % n * 10)
        found.append(files.open(named(path, f"t-0/{n}.log"), 0, 5))
    assert open_descriptors() == before + 5
    assert [content(f) for f in found] == [b"%d" % n * 5 for n in range(5)]
    found[0].release()
    assert open_descriptors() == before + 4
    for one in found[1:]:
        one.release()
    assert open_descriptors() == before + 2
    files.close()
    assert open_descriptors() == before


def test_close_leaves_ranges_that_are_being_sent(directory):
    before = open_descriptors()
    files = SegmentFiles([str(directory)], "token")
    found = files.open(named(directory / "t-0" / "0.log"), 0, 5)
    files.close()
    assert content(found) == b"01234"
    found.release()
    assert open_descriptors() == before
