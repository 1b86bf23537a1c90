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
    assert (code, out) == (0, "i: produce 7 B/s, consume unlimited\n")
    assert changes == [("c:1", "i", LimitChange(produce=7, consume=None))]


def test_none_is_unlimited(highwater, changes):
    highwater("quota", "set", "--consume-bytes-per-second", "none", "--controller", "c:1")
    assert changes == [("c:1", "default", LimitChange(produce=None, consume=-1))]


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
    states = [InstanceState(instance=InstanceId("a"), consume_bytes_per_second=3)]
    monkeypatch.setattr("highwater.embed.clients.limits.read_limits", lambda _address: states)
    code, out, _ = highwater("quota", "show", "--controller", "c:1")
    assert code == 0
    (row,) = [line for line in out.splitlines() if "│ a" in line]
    assert [cell.strip() for cell in row.split("│")[1:4]] == ["a", "unlimited", "3 B/s"]
