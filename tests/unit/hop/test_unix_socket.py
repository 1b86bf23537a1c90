"""Where a node's unix socket is, and for whom."""

import os
from pathlib import Path

import pytest

from highwater.hop.segment_files import INCARNATION_FILE
from highwater.hop.unix_socket import PATH_BYTES_MAX, SOCKET_FILE, socket_of, socket_to_serve
from highwater.model.errors import BindError
from highwater.rpc.addresses import UnixAddress


@pytest.fixture
def directory(tmp_path):
    (tmp_path / INCARNATION_FILE).write_text("token")
    return tmp_path


def test_a_node_listens_in_its_first_log_directory(tmp_path):
    address = socket_to_serve([tmp_path, Path("/other")])
    assert address == UnixAddress(str(tmp_path / SOCKET_FILE))


def test_a_path_that_is_too_long_is_not_taken(tmp_path):
    left = PATH_BYTES_MAX - len(str(tmp_path)) - len(SOCKET_FILE) - 2
    fits, long = tmp_path / ("x" * left), tmp_path / ("x" * (left + 1))
    for one in (fits, long):
        one.mkdir()
        (one / INCARNATION_FILE).write_text("token")
    assert len(socket_to_serve([fits]).path) == PATH_BYTES_MAX
    assert socket_of([str(fits)], "token") is not None
    with pytest.raises(BindError, match="more than 107 bytes"):
        socket_to_serve([long])
    assert socket_of([str(long)], "token") is None


def test_a_directory_of_somebody_else_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(BindError, match="another user"):
        socket_to_serve([tmp_path])


def test_a_directory_that_cannot_be_read_is_not_taken(tmp_path):
    with pytest.raises(BindError, match="No such file"):
        socket_to_serve([tmp_path / "none"])


def test_peers_of_the_host_find_it_by_the_token(directory):
    dirs = [str(directory), "/other"]
    assert socket_of(dirs, "token") == UnixAddress(str(directory / SOCKET_FILE))
    assert socket_of(dirs, "another") is None
    assert socket_of([str(directory / "none")], "token") is None
    assert socket_of([], "token") is None


def test_a_token_that_is_none(directory):
    (directory / INCARNATION_FILE).write_bytes(b"\xff\xfe")
    assert socket_of([str(directory)], "token") is None
