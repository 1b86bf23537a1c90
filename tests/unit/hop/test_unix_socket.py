"""Where a node's unix socket is, and for whom."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pytest

from highwater.hop.segment_files import INCARNATION_FILE
from highwater.hop.unix_socket import (
    PATH_BYTES_MAX,
    SOCKET_FILE,
    is_private,
    socket_of,
    socket_to_serve,
)
from highwater.model.errors import BindError
from highwater.rpc.addresses import TcpAddress, UnixAddress
from highwater.rpc.server import RpcServer


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


@pytest.mark.parametrize(
    ("mode", "private"), [(0o700, True), (0o755, True), (0o770, False), (0o702, False)]
)
def test_a_directory_that_others_may_change_is_not_private(tmp_path, mode, private):
    tmp_path.chmod(mode)
    address = UnixAddress(str(tmp_path / SOCKET_FILE))
    assert is_private(address) is private
    assert socket_to_serve([tmp_path]) == address
    if private:
        assert socket_to_serve([tmp_path], private=True) == address
    else:
        with pytest.raises(BindError, match="other users may change the directory"):
            socket_to_serve([tmp_path], private=True)


def test_a_directory_of_another_user_is_not_private(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    mine = tmp_path.stat().st_uid == 0  # What root has made, root could change anyway.
    assert is_private(UnixAddress(str(tmp_path / SOCKET_FILE))) is mine
    assert not is_private(UnixAddress(str(tmp_path / "none" / SOCKET_FILE)))


@pytest.fixture
def open_way():
    """A directory that everybody may enter, which pytest's are not."""
    made = Path(tempfile.mkdtemp(prefix="hw"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_user_cannot_connect(open_way):
    """The socket's own rights, also where the way to it is open."""
    server = RpcServer(TcpAddress("127.0.0.1", 0))
    await server.start()
    path = open_way / SOCKET_FILE
    try:
        await server.serve_beside(UnixAddress(str(path)))
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        run = partial(subprocess.run, ["/usr/bin/env", "python3", "-c", code], capture_output=True)
        ours = await asyncio.to_thread(run)
        theirs = await asyncio.to_thread(partial(run, user=65534, env={"PATH": "/usr/bin:/bin"}))
    finally:
        await server.stop(drain_s=0)
    assert ours.returncode == 0, ours.stderr
    assert b"PermissionError" in theirs.stderr
