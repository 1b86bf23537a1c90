"""What ACLs decide, against a plain reading of Kafka's rules."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.model.acl_operations import AclOperation
from highwater.model.acls import (
    ALL_OPERATIONS,
    ANY,
    MATCH,
    OPERATIONS,
    WILDCARD,
    AclFilter,
    AclTable,
    PatternType,
    Permission,
    invalid_entry,
    invalid_filter,
)
from highwater.model.authorization import Resource, ResourceType
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from tests.support.acls import acl, who

LITERAL, PREFIXED = PatternType
DENY, ALLOW = Permission
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
OTHER = InstanceId("other")


def decide(acls, operation=READ, name="t", requester=None, kind=TOPIC):
    return AclTable(acls).decide(requester or who(), operation, Resource(kind, name))


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        (acl(), True),
        (acl(operation=ALL_OPERATIONS), True),
        (acl(operation=WRITE), False),
        (acl(principal="User:*"), True),
        (acl(principal="User:bob"), False),
        (acl(principal="Group:alice"), False),
        (acl(host="10.0.0.1"), True),
        (acl(host="10.0.0.2"), False),
        (acl(WILDCARD), True),
        (acl("t", pattern=PREFIXED), True),
        (acl("", pattern=PREFIXED), True),
        (acl(permission=DENY), False),
        (acl("tt"), None),
        (acl("tt", pattern=PREFIXED), None),
        (acl(WILDCARD, pattern=PREFIXED), None),
        (acl(kind=GROUP), None),
        (acl(instance=OTHER), None),
    ],
)
def test_one_entry(entry, allowed):
    assert decide([entry]) is allowed


@pytest.mark.parametrize(
    ("denying", "denied"),
    [
        (acl(permission=DENY), True),
        (acl(WILDCARD, permission=DENY), True),
        (acl("t", pattern=PREFIXED, permission=DENY), True),
        (acl(operation=ALL_OPERATIONS, permission=DENY), True),
        (acl(principal="User:*", permission=DENY), True),
        (acl(operation=DESCRIBE, permission=DENY), False),
        (acl(host="10.0.0.2", permission=DENY), False),
    ],
)
def test_an_entry_that_denies_is_stronger(denying, denied):
    assert decide([acl(), denying]) is not denied


@pytest.mark.parametrize("operation", AclOperation)
def test_what_implies_describe(operation):
    implied = operation in {
        DESCRIBE, READ, WRITE, AclOperation.DELETE, AclOperation.ALTER,
    }  # fmt: skip
    assert decide([acl(operation=operation)], DESCRIBE) is implied
    assert decide([acl(operation=operation, permission=DENY), acl("*", DESCRIBE)], DESCRIBE) is (
        operation != DESCRIBE
    )
    configs = operation in {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}
    assert decide([acl(operation=operation)], AclOperation.DESCRIBE_CONFIGS) is configs


def test_instances_are_apart():
    table = [acl(), acl("u", instance=OTHER)]
    assert decide(table, name="u", requester=who(instance=OTHER)) is True
    assert decide(table, name="u") is None
    assert decide(table, requester=who(instance=OTHER)) is None


@pytest.mark.parametrize(
    ("acls", "anywhere"),
    [
        ([], False),
        ([acl("only-this")], True),
        ([acl("some", pattern=PREFIXED)], True),
        ([acl(operation=DESCRIBE)], False),
        ([acl(principal="User:bob")], False),
        ([acl(kind=GROUP)], False),
        ([acl("a"), acl("a", permission=DENY)], False),
        ([acl("ab"), acl("a", pattern=PREFIXED, permission=DENY)], False),
        ([acl("ab", pattern=PREFIXED), acl("a", pattern=PREFIXED, permission=DENY)], False),
        ([acl("a", pattern=PREFIXED), acl("ab", pattern=PREFIXED, permission=DENY)], True),
        ([acl("a", pattern=PREFIXED), acl("a", permission=DENY)], True),
        ([acl("a"), acl(WILDCARD, permission=DENY)], False),
        ([acl(WILDCARD), acl("a", permission=DENY)], True),
        ([acl(WILDCARD), acl("a", pattern=PREFIXED, permission=DENY)], True),
    ],
)
def test_whether_anything_is_allowed_anywhere(acls, anywhere):
    assert AclTable(acls).decide_any(who(), READ, TOPIC) is anywhere


names = st.text("ab*", min_size=1, max_size=3)
entries = st.builds(
    acl,
    names,
    st.sampled_from([READ, WRITE, DESCRIBE, ALL_OPERATIONS]),
    st.sampled_from(Permission),
    pattern=st.sampled_from(PatternType),
    principal=st.sampled_from(["User:alice", "User:bob", "User:*"]),
    host=st.sampled_from([WILDCARD, "10.0.0.1", "10.0.0.2"]),
    kind=st.sampled_from([TOPIC, GROUP]),
)


@given(st.lists(entries, max_size=6), names, st.sampled_from([READ, WRITE, DESCRIBE]))
@settings(max_examples=300, deadline=None)
def test_all_entries_are_looked_at(acls, name, operation):
    about = [
        one
        for one in acls
        if one.resource_type == TOPIC
        and (
            name.startswith(one.name)
            if one.pattern_type == PREFIXED
            else one.name in {name, WILDCARD}
        )
    ]
    mine = [
        one
        for one in about
        if one.principal in {"User:alice", "User:*"} and one.host in {WILDCARD, "10.0.0.1"}
    ]
    denies = {one.operation for one in mine if one.permission == DENY}
    allows = {one.operation for one in mine if one.permission == ALLOW}
    enough = {operation, ALL_OPERATIONS} | ({READ, WRITE} if operation == DESCRIBE else set())
    expected = None
    if about:
        expected = not denies & {operation, ALL_OPERATIONS} and bool(allows & enough)
    assert decide(acls, operation, name) is expected


def wanted(kind=ANY, pattern=ANY, name=None, principal=None, host=None, operation=ANY, perm=ANY):
    return AclFilter(DEFAULT_INSTANCE, kind, pattern, name, principal, host, operation, perm)


FOUND = [
    acl("a"), acl("ab", pattern=PREFIXED), acl("a", pattern=PREFIXED), acl(WILDCARD),
    acl("a", kind=GROUP, operation=WRITE, principal="User:bob", host="h", permission=DENY),
]  # fmt: skip


@pytest.mark.parametrize(
    ("each", "found"),
    [
        (wanted(), FOUND),
        (wanted(kind=GROUP), FOUND[4:]),
        (wanted(pattern=LITERAL, name="a"), [FOUND[0], FOUND[4]]),
        (wanted(pattern=PREFIXED), FOUND[1:3]),
        (wanted(name="a"), [FOUND[0], FOUND[2], FOUND[4]]),
        (wanted(TOPIC, MATCH, "abc"), FOUND[1:4]),
        (wanted(TOPIC, MATCH), FOUND[:4]),
        (wanted(principal="User:bob"), FOUND[4:]),
        (wanted(host="h"), FOUND[4:]),
        (wanted(operation=WRITE), FOUND[4:]),
        (wanted(operation=ALL_OPERATIONS), []),
        (wanted(perm=ALLOW), FOUND[:4]),
        (wanted()._replace(instance=OTHER), []),
    ],
)
def test_filters(each, found):
    assert [one for one in FOUND if each.matches(one)] == found


@pytest.mark.parametrize(
    ("field", "value"),
    [("resource_type", 0), ("resource_type", 8), ("pattern_type", 0), ("pattern_type", 5),
     ("operation", 0), ("operation", 16), ("permission", 0), ("permission", 4)],
)  # fmt: skip
def test_values_that_are_not_known(field, value):
    assert field.replace("_", " ").split()[0] in invalid_entry(acl()._replace(**{field: value}))
    assert str(value) in invalid_filter(wanted()._replace(**{field: value}))


def test_values_that_are_known():
    assert all(invalid_entry(acl(operation=operation)) is None for operation in OPERATIONS)
    assert invalid_filter(wanted(pattern=MATCH)) is None
    for entry in (
        acl(operation=ANY), acl(kind=ANY), acl(pattern=ANY), acl(pattern=MATCH), acl(permission=ANY),
    ):  # fmt: skip
        assert invalid_entry(entry) is not None


@pytest.mark.parametrize(
    ("written", "client"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::A", "2001:db8::a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("somewhere", "somewhere"),
    ],
)
def test_an_address_counts_however_it_is_written(written, client):
    """Java writes ::1 in full: an entry that came from there and denies would deny nobody."""
    acls = [acl(), acl(permission=DENY, host=written)]
    assert decide(acls, requester=who(host=client)) is False
    assert decide(acls, requester=who(host="10.0.0.2")) is True
    assert not AclTable(acls).decide_any(who(host=client), READ, TOPIC)
    assert decide([acl(host=written)], requester=who(host=client)) is True
