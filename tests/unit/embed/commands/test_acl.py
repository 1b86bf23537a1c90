import json

import pytest

from highwater.model.acl_operations import AclOperation
from highwater.model.acls import PatternType, Permission
from highwater.model.authorization import ResourceType
from highwater.model.ids import InstanceId
from tests.support.acls import acl


@pytest.fixture
def added(monkeypatch):
    seen = []
    monkeypatch.setattr("highwater.embed.clients.acls.add_acl", lambda *call: seen.append(call))
    return seen


def test_add(highwater, added):
    code, out, _ = highwater("acl", "add", "alice", "READ", "topic", "t", "--controller", "c:1")
    assert (code, out) == (0, "User:alice may read on topic t from *\n")
    assert added == [("c:1", acl("t"))]


def test_add_with_all_options(highwater, added):
    code, out, _ = highwater(
        *("acl", "add", "*", "write", "group", "g", "--prefix", "--deny", "--host", "10.0.0.1"),
        *("--instance", "i", "--controller", "c:1"),
    )
    assert (code, out) == (0, "User:* may not write on group g... from 10.0.0.1\n")
    ((_, entry),) = added
    assert entry == acl(
        "g",
        AclOperation.WRITE,
        Permission.DENY,
        pattern=PatternType.PREFIXED,
        principal="User:*",
        host="10.0.0.1",
        kind=ResourceType.GROUP,
        instance=InstanceId("i"),
    )


def test_the_cluster_has_no_name(highwater, added):
    code, out, _ = highwater("acl", "add", "alice", "all", "cluster", "--controller", "c:1")
    assert (code, out) == (0, "User:alice may all on cluster kafka-cluster from *\n")
    ((_, entry),) = added
    assert (entry.resource_type, entry.pattern_type, entry.name, entry.operation) == (
        ResourceType.CLUSTER, PatternType.LITERAL, "kafka-cluster", 2,
    )  # fmt: skip
    assert highwater("acl", "add", "alice", "all", "cluster", "x", "--controller", "c:1")[0] == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [(("fly", "topic", "t"), "no operation 'fly'"), (("read", "topic"), "which topic?")],
)
def test_words_that_are_refused(highwater, added, words, why):
    code, _, err = highwater("acl", "add", "alice", *words, "--controller", "c:1")
    assert code == 2
    assert why in err
    assert added == []


@pytest.mark.parametrize("there", [True, False])
def test_remove(highwater, monkeypatch, there):
    monkeypatch.setattr("highwater.embed.clients.acls.remove_acl", lambda *_: there)
    code, out, err = highwater(
        "acl", "remove", "alice", "read", "topic", "t", "--controller", "c:1"
    )
    line = "User:alice may read on topic t from *"
    assert (code, out) == ((0, f"removed: {line}\n") if there else (2, ""))
    assert (f"no such ACL: {line}" in err) is not there


def test_list(highwater, monkeypatch):
    entries = [acl("t", pattern=PatternType.PREFIXED), acl("u", permission=Permission.DENY)]
    monkeypatch.setattr("highwater.embed.clients.acls.list_acls", lambda *_: entries)
    code, out, _ = highwater("acl", "list", "--controller", "c:1")
    assert code == 0
    rows = [
        [cell.strip() for cell in line.split("│")[1:6]]
        for line in out.splitlines()
        if "User:alice" in line
    ]
    assert rows == [
        ["User:alice", "may", "read", "topic t...", "*"],
        ["User:alice", "may not", "read", "topic u", "*"],
    ]


def test_list_as_json(highwater, monkeypatch):
    entries = [
        acl("t", pattern=PatternType.PREFIXED),
        acl("u", permission=Permission.DENY, host="::1"),
    ]
    monkeypatch.setattr("highwater.embed.clients.acls.list_acls", lambda *_: entries)
    code, out, _ = highwater("acl", "list", "--json", "--controller", "c:1")
    first = {
        "principal": "User:alice",
        "permission": "allow",
        "operation": "read",
        "resource_type": "topic",
        "name": "t",
        "prefix": True,
        "host": "*",
    }
    second = {**first, "permission": "deny", "name": "u", "prefix": False, "host": "::1"}
    assert (code, json.loads(out)) == (0, [first, second])
