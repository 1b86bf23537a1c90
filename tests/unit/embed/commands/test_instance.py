import io
import json
from types import SimpleNamespace

import pytest

from highwater.embed.clients.instances import KnownInstance
from highwater.model.errors import HighwaterError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState

CLIENTS = "highwater.embed.clients.instances"
WHERE = ("--controller", "c:1")
PRESENT = InstanceState(
    instance=InstanceId("shop"), listeners=(InstanceListener(port=19_000),), groups_max=4
)


@pytest.fixture
def asked(monkeypatch):
    """Records what is asked of the controller, which has PRESENT."""
    made = SimpleNamespace(created=[], changed=[], deleted=[], restored=[])

    def change(address, name, work):
        made.changed.append((address, name, work(PRESENT)))

    def delete(address, name, *, purge_after_ms):
        made.deleted.append((address, name, purge_after_ms))
        return 1_800_000_000_000

    known = KnownInstance(state=PRESENT, topics=3)
    monkeypatch.setattr(f"{CLIENTS}.create_instance", lambda *call: made.created.append(call))
    monkeypatch.setattr(f"{CLIENTS}.change_instance", change)
    monkeypatch.setattr(f"{CLIENTS}.delete_instance", delete)
    monkeypatch.setattr(f"{CLIENTS}.restore_instance", lambda *call: made.restored.append(call))
    monkeypatch.setattr(f"{CLIENTS}.read_instances", lambda _address: [known])
    monkeypatch.setattr(f"{CLIENTS}.read_instance", lambda _address, _name: known)
    return made


def test_create_with_everything(highwater, asked):
    code, out, _ = highwater(
        *("instance", "create", "shop", "--port", "19000", "--listener", "secure"),
        *("--advertised-host", "kafka.example", "--advertised-port", "9092"),
        *("--allow", "10.0.0.0/8", "--allow", "::1", "--produce-bytes-per-second", "10MB"),
        *("--consume-bytes-per-second", "20MB", "--storage-bytes", "10GB", "--connections", "5"),
        *("--partitions", "6", "--groups", "7", "--message-bytes", "1MiB"),
        *("--token-audience", "shop", "--certificates", "--closed"),
        *("--delete-protection", *WHERE),
    )
    assert (code, out) == (0, "shop: created, port 19000 on listener secure\n")
    block = InstanceListener(
        port=19_000, listener="secure", advertised_host="kafka.example", advertised_port=9092
    )
    wanted = InstanceState(
        instance=InstanceId("shop"),
        produce_bytes_per_second=10_000_000,
        consume_bytes_per_second=20_000_000,
        storage_bytes=10_000_000_000,
        listeners=(block,),
        allowed_networks=("10.0.0.0/8", "::1"),
        connections_max=5,
        partitions_max=6,
        groups_max=7,
        message_bytes_max=1 << 20,
        delete_protection=True,
        token_audience="shop",
        certificates=True,
        open_if_no_acl=False,
    )
    assert asked.created == [("c:1", wanted)]


def test_create_with_nothing_but_a_port(highwater, asked):
    code, _, _ = highwater("instance", "create", "shop", "--port", "19000", *WHERE)
    assert code == 0
    wanted = InstanceState(instance=InstanceId("shop"), listeners=PRESENT.listeners)
    assert asked.created == [("c:1", wanted)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--port"),
        (("--port", "0"), "--port"),
        (("--port", "1", "--storage-bytes", "much"), "--storage-bytes: expected bytes"),
        (("--port", "1", "--partitions", "-1"), "--partitions: expected a whole number"),
        (("--port", "1", "--allow", "::1", "--allow-nobody"), "one of --allow"),
    ],
)
def test_create_what_cannot_be(highwater, asked, arguments, words):
    code, _, err = highwater("instance", "create", "shop", *arguments, *WHERE)
    assert code == 2
    assert words in err
    assert asked.created == []


def test_what_the_controller_refuses_is_one_line(highwater, asked, monkeypatch):
    def refuse(*_):
        raise HighwaterError("instance 'shop' exists already")

    monkeypatch.setattr(f"{CLIENTS}.create_instance", refuse)
    code, out, err = highwater("instance", "create", "shop", "--port", "1", *WHERE)
    assert (code, out, err) == (1, "", "highwater: instance 'shop' exists already\n")


def test_set_names_only_what_changes(highwater, asked):
    code, out, _ = highwater(
        "instance", "set", "shop", "--partitions", "6", "--groups", "none", *WHERE
    )
    assert (code, out) == (0, "shop: changed\n")
    wanted = InstanceState(
        instance=InstanceId("shop"), listeners=PRESENT.listeners, partitions_max=6
    )
    assert asked.changed == [("c:1", "shop", wanted)]


@pytest.mark.parametrize(
    ("flag", "field", "expected"),
    [
        ("--allow-nobody", "allowed_networks", ()),
        ("--delete-protection", "delete_protection", True),
        ("--remove-listener=default", "listeners", ()),
        ("--port=20000", "listeners", (InstanceListener(port=20_000),)),
        ("--allow=::1", "allowed_networks", ("::1",)),
    ],
)
def test_set_one_thing(highwater, asked, flag, field, expected):
    assert highwater("instance", "set", "shop", flag, *WHERE)[0] == 0
    ((_, _, wanted),) = asked.changed
    assert getattr(wanted, field) == expected
    assert wanted.groups_max == 4


def test_set_nothing(highwater, asked):
    code, _, err = highwater("instance", "set", "shop", *WHERE)
    assert code == 2
    assert "nothing to change" in err
    assert asked.changed == []


def test_list(highwater, asked):
    code, out, _ = highwater("instance", "list", *WHERE)
    assert code == 0
    (row,) = [line for line in out.splitlines() if "shop" in line]
    assert [cell.strip() for cell in row.split("│")[1:4]] == ["shop", "active", "19000 on"]
    code, out, _ = highwater("instance", "list", "--json", *WHERE)
    (told,) = json.loads(out)
    assert (told["instance"], told["limits"]["groups_max"], told["topics"]) == ("shop", 4, 3)


def test_show(highwater, asked):
    code, out, _ = highwater("instance", "show", "shop", *WHERE)
    assert code == 0
    (row,) = [line for line in out.splitlines() if "limit of groups" in line]
    assert row.split("│")[2].strip() == "4"
    code, out, _ = highwater("instance", "show", "shop", "--json", *WHERE)
    assert json.loads(out)["instance"] == "shop"


def test_delete(highwater, asked):
    code, out, _ = highwater("instance", "delete", "shop", "--yes", *WHERE)
    assert code == 0
    assert "restore` works until 2027-01-15T08:00:00Z" in out
    code, out, _ = highwater("instance", "delete", "shop", "--yes", "--after", "0", *WHERE)
    assert out == "shop: deleted for good\n"
    assert asked.deleted == [("c:1", "shop", 86_400_000), ("c:1", "shop", 0)]


def test_delete_asks(highwater, asked, monkeypatch):
    questions = []

    def confirm(text, *, abort):
        questions.append((text, abort))

    monkeypatch.setattr("typer.confirm", confirm)
    assert highwater("instance", "delete", "shop", "--after", "2h", *WHERE)[0] == 0
    assert questions == [("Delete instance shop with 3 topics, for good after 2h?", True)]
    assert asked.deleted == [("c:1", "shop", 7_200_000)]


def test_delete_without_an_answer_deletes_nothing(highwater, asked, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert highwater("instance", "delete", "shop", *WHERE)[0] == 1
    assert asked.deleted == []


def test_delete_after_what_is_no_time(highwater, asked):
    code, _, err = highwater("instance", "delete", "shop", "--yes", "--after", "soon", *WHERE)
    assert code == 2
    assert "--after: expected a time" in err
    assert asked.deleted == []


def test_restore(highwater, asked):
    assert highwater("instance", "restore", "shop", *WHERE)[:2] == (0, "shop: restored\n")
    assert asked.restored == [("c:1", "shop")]
