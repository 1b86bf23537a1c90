"""Cached bytes are read, others are left to a thread, and errors are raised."""

import errno
import os

import pytest

from highwater.hop import page_cache
from highwater.hop.page_cache import read_cached


@pytest.fixture
def fd(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


def refusing(monkeypatch, code):
    real, flags = os.preadv, []

    def preadv(fd, buffers, position, flag=0):
        flags.append(flag)
        if flag:
            raise OSError(code, os.strerror(code))
        return real(fd, buffers, position)

    monkeypatch.setattr(page_cache.os, "preadv", preadv)
    return flags


def test_bytes_that_were_just_written_are_in_memory(fd):
    buffer = bytearray(4)
    assert read_cached(fd, buffer, 3) == 4
    assert buffer == b"3456"


def test_the_end_of_the_file_ends_the_read(fd):
    buffer = bytearray(4)
    assert read_cached(fd, buffer, 8) == 2
    assert read_cached(fd, buffer, 10) == 0


def test_uncached_bytes_are_not_read(fd, monkeypatch):
    flags = refusing(monkeypatch, errno.EAGAIN)
    assert read_cached(fd, bytearray(4), 0) == 0
    assert flags == [os.RWF_NOWAIT]


def test_a_file_system_that_cannot_tell_is_read(fd, monkeypatch):
    flags = refusing(monkeypatch, errno.EOPNOTSUPP)
    buffer = bytearray(4)
    assert read_cached(fd, buffer, 0) == 4
    assert buffer == b"0123"
    assert flags == [os.RWF_NOWAIT, 0]


def test_other_errors_are_raised(fd, monkeypatch):
    refusing(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        read_cached(fd, bytearray(4), 0)
