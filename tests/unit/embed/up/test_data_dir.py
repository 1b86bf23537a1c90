import json
import stat

import pytest

from highwater.embed.up.data_dir import DataDir
from highwater.model.errors import UnwritableDirectoryError, UsageError


def test_one_holder_at_a_time(tmp_path):
    first = DataDir(tmp_path / "d")
    first.acquire()
    second = DataDir(tmp_path / "d")
    with pytest.raises(UsageError, match=r"in use by another broker \(pid \d+\)"):
        second.acquire()
    second.release()
    with pytest.raises(UsageError):
        DataDir(tmp_path / "d").acquire()
    first.release()
    second.acquire()
    second.release()


def test_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableDirectoryError, match=r"cannot write to directory .*/file/d"):
        DataDir(tmp_path / "file" / "d").acquire()


def test_release_removes_the_files_of_the_process(tmp_path):
    data = DataDir(tmp_path)
    data.acquire()
    data.write_controller_address("127.0.0.1:1")
    data.write_pids({"gateway-1": 7})
    assert data.read_controller_address() == "127.0.0.1:1"
    assert json.loads((tmp_path / "pids.json").read_text()) == {"gateway-1": 7}
    data.write_pids({"gateway-1": 8})
    assert json.loads((tmp_path / "pids.json").read_text()) == {"gateway-1": 8}
    data.release()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    with pytest.raises(UsageError, match="no broker runs"):
        data.read_controller_address()


def test_nodes_have_the_same_directory_in_every_mode(tmp_path):
    assert DataDir(tmp_path).node(1) == tmp_path / "node-1"


def test_a_secret_that_stays(tmp_path):
    data = DataDir(tmp_path)
    data.acquire()
    data.make_secret()
    assert stat.S_IMODE(data.secret.stat().st_mode) == 0o600
    made = data.secret.read_text()
    data.make_secret()
    data.release()
    assert data.secret.read_text() == made


def test_files_that_tools_need(tmp_path):
    data = DataDir(tmp_path)
    data.acquire()
    assert data.read_inner() == {}
    data.write_inner({"secret_file": "/s"})
    assert data.read_inner() == {"secret_file": "/s"}
    (tmp_path / "inner.json").write_text("{")
    with pytest.raises(UsageError, match=r"cannot read .*inner\.json"):
        data.read_inner()
    data.release()
    assert data.read_inner() == {}
