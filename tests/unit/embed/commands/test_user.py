import io
import json

import pytest

from highwater.embed.clients.users import KnownUser
from highwater.model.scram import ScramMechanism

SHA_256, SHA_512 = ScramMechanism


@pytest.fixture
def changes(monkeypatch):
    seen = []
    monkeypatch.setattr("highwater.embed.clients.users.set_user", lambda *call: seen.append(call))
    return seen


def test_the_password_comes_from_a_file(highwater, changes, tmp_path):
    file = tmp_path / "password"
    file.write_bytes(b"p\xc3\xa4ss word\r\n")
    code, out, _ = highwater(
        "user", "set", "alice", "--password-file", str(file), "--controller", "c:1"
    )
    assert (code, out) == (0, "alice: SCRAM-SHA-512, 4096 iterations\n")
    assert changes == [("c:1", "default", "alice", "päss word".encode(), SHA_512, 4096)]


def test_or_from_standard_input(highwater, changes, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"secret\n")))
    code, out, _ = highwater(
        *("user", "set", "bob", "--mechanism", "SCRAM-SHA-256", "--iterations", "8192"),
        *("--instance", "i", "--password-file", "-", "--controller", "c:1"),
    )
    assert (code, out) == (0, "bob: SCRAM-SHA-256, 8192 iterations\n")
    assert changes == [("c:1", "i", "bob", b"secret", SHA_256, 8192)]


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 4097])
def test_passwords_that_are_none(highwater, changes, tmp_path, content):
    file = tmp_path / "password"
    file.write_bytes(content)
    code, _, err = highwater(
        "user", "set", "alice", "--password-file", str(file), "--controller", "c:1"
    )
    assert code == 2
    assert "a password has 1 to 4096 bytes" in err
    assert changes == []


def test_a_file_that_is_not_there(highwater, changes, tmp_path):
    code, _, err = highwater(
        "user", "set", "alice", "--password-file", str(tmp_path / "no"), "--controller", "c:1"
    )
    assert code == 2
    assert "No such file" in err
    assert changes == []


def test_list(highwater, monkeypatch):
    users = [KnownUser(name="alice", iterations={SHA_256: 4096, SHA_512: 4096})]
    monkeypatch.setattr("highwater.embed.clients.users.list_users", lambda *_: users)
    code, out, _ = highwater("user", "list", "--controller", "c:1")
    assert code == 0
    (row,) = [line for line in out.splitlines() if "alice" in line]
    assert [cell.strip() for cell in row.split("│")[1:3]] == [
        "alice", "SCRAM-SHA-256, SCRAM-SHA-512",
    ]  # fmt: skip


def test_list_as_json(highwater, monkeypatch):
    users = [KnownUser(name="al\nice", iterations={SHA_256: 4096, SHA_512: 8192})]
    monkeypatch.setattr("highwater.embed.clients.users.list_users", lambda *_: users)
    code, out, _ = highwater("user", "list", "--json", "--controller", "c:1")
    mechanisms = {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192}
    assert (code, json.loads(out)) == (0, [{"user": "al\nice", "mechanisms": mechanisms}])


def test_delete(highwater, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "highwater.embed.clients.users.delete_user", lambda *call: seen.append(call)
    )
    code, out, _ = highwater("user", "delete", "alice", "--controller", "c:1")
    assert (code, out) == (0, "alice: removed\n")
    assert seen == [("c:1", "default", "alice")]
