import json

import pytest

from highwater.embed.clients.limits import LimitChange
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState


@pytest.fixture
def changes(monkeypatch):
    seen = []

    def change(address, instance, wanted):
        seen.append((address, instance, wanted))
        return InstanceState(instance=InstanceId(instance), produce_bytes_per_second=7)

    monkeypatch.setattr("highwater.embed.clients.limits.change_limits", change)
    return seen


def test_set_names_only_what_changes(highwater, changes):
    code, out, _ = highwater(
        "quota", "set", "--instance", "i", "--produce-bytes-per-second", "7", "--controller", "c:1"
    )
    assert (code, out) == (0, "i: produce 7 B/s, consume unlimited, storage unlimited\n")
    assert changes == [("c:1", "i", LimitChange(produce=7, consume=None))]


def test_none_is_unlimited(highwater, changes):
    highwater("quota", "set", "--consume-bytes-per-second", "none", "--controller", "c:1")
    assert changes == [("c:1", "default", LimitChange(produce=None, consume=-1))]


def test_storage(highwater, changes):
    highwater("quota", "set", "--storage-bytes", "1000", "--controller", "c:1")
    assert changes == [("c:1", "default", LimitChange(storage=1000))]


@pytest.mark.parametrize("text", ["-5", "1.5", "much", "", str(1 << 60)])
def test_invalid_limits(highwater, changes, text):
    code, _, err = highwater(
        "quota", "set", f"--consume-bytes-per-second={text}", "--controller", "c:1"
    )
    assert code == 2
    assert "--consume-bytes-per-second: expected a number" in err
    assert changes == []


def test_controller_is_found_by_the_data_directory(highwater, changes, tmp_path):
    (tmp_path / "controller.address").write_text("127.0.0.1:77")
    highwater("quota", "set", "--data-dir", str(tmp_path))
    assert changes[0][0] == "127.0.0.1:77"


def test_show(highwater, monkeypatch):
    states = [InstanceState(instance=InstanceId("a"), consume_bytes_per_second=3, storage_bytes=9)]
    monkeypatch.setattr("highwater.embed.clients.limits.read_limits", lambda _address: states)
    code, out, _ = highwater("quota", "show", "--controller", "c:1")
    assert code == 0
    (row,) = [line for line in out.splitlines() if "│ a" in line]
    assert [cell.strip() for cell in row.split("│")[1:5]] == ["a", "unlimited", "3 B/s", "9 B"]


def test_show_as_json(highwater, monkeypatch):
    states = [InstanceState(instance=InstanceId("a"), consume_bytes_per_second=3, storage_bytes=9)]
    monkeypatch.setattr("highwater.embed.clients.limits.read_limits", lambda _address: states)
    code, out, _ = highwater("quota", "show", "--json", "--controller", "c:1")
    limits = {"produce_bytes_per_second": None, "consume_bytes_per_second": 3, "storage_bytes": 9}
    assert (code, json.loads(out)) == (0, [{"instance": "a", **limits}])


@pytest.fixture
def running(tmp_path, monkeypatch):
    """A data directory whose controller asks for a secret, and no other settings."""
    for name in ("HIGHWATER_SECRET_FILE", "HIGHWATER_TLS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "controller.address").write_text("127.0.0.1:77")
    (tmp_path / "inner.json").write_text(json.dumps({"secret_file": "/of/the/directory"}))
    return str(tmp_path)


def test_what_the_controller_asks_for_is_found_by_the_data_directory(highwater, changes, running):
    highwater("quota", "set", "--data-dir", running)
    highwater("quota", "set", "--data-dir", running, "--controller", "127.0.0.1:77")
    assert [address.files for address, *_ in changes] == [{"secret_file": "/of/the/directory"}] * 2
    highwater("quota", "set", "--data-dir", running, "--controller", "127.0.0.1:78")
    assert changes[2][0].files == {}, "that is another cluster"


def test_or_it_is_given(highwater, changes, running, monkeypatch):
    highwater("quota", "set", "--controller", "c:1", "--secret-file", "s", "--tls", "a,b,c")
    files = {"secret_file": "s", "ca_file": "a", "cert_file": "b", "key_file": "c"}
    assert changes[0][0].files == files
    highwater("quota", "set", "--data-dir", running, "--secret-file", "s")
    assert changes[1][0].files == {"secret_file": "s"}
    monkeypatch.setenv("HIGHWATER_SECRET_FILE", "e")
    monkeypatch.setenv("HIGHWATER_TLS", "x,y,z")
    highwater("quota", "set", "--controller", "c:1")
    assert changes[2][0].files == {
        "secret_file": "e", "ca_file": "x", "cert_file": "y", "key_file": "z"
    }  # fmt: skip


@pytest.mark.parametrize("given", ["a", "a,b", "a,,c", "a,b,c,d"])
def test_certificates_are_three_files(highwater, changes, given):
    code, _, err = highwater("quota", "set", "--controller", "c:1", "--tls", given)
    assert (code, changes) == (2, [])
    assert "--tls: expected the files CA,CERT,KEY" in err
