"""The entries that each row is tried with, and what is to come of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from highwater.model.acl_operations import AclOperation
from highwater.model.acls import ALL_OPERATIONS, WILDCARD, PatternType, Permission
from highwater.model.authorization import ResourceType
from tests.cluster.acl_matrix.rows import Names, Need, Row

USER = "alice"
HOST = "127.0.0.1"

_IMPLIED = {
    AclOperation.READ: AclOperation.DESCRIBE,
    AclOperation.WRITE: AclOperation.DESCRIBE,
    AclOperation.DELETE: AclOperation.DESCRIBE,
    AclOperation.ALTER: AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
}
"""What else is allowed with an operation (Kafka: `AclOperation`, "implies"). Written down once more, so
that it is not what the authorizer says.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An ACL, as CreateAcls takes it."""

    kind: ResourceType
    name: str
    operation: int
    permission: Permission = Permission.ALLOW
    pattern: PatternType = PatternType.LITERAL
    user: str = USER
    host: str = WILDCARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Entries, and whether they allow the row's request."""

    title: str
    entries: tuple[Entry, ...]
    allowed: bool
    always: bool = False
    """Outside `make full`, too."""


def cases(row: Row, names: Names) -> Iterator[Case]:
    """All of a row. Those of the first operation that it may be allowed by come first."""
    given = tuple(_entry(need, names) for need in row.given)
    yield Case(title="nothing", entries=given, allowed=False, always=True)
    for need in row.needs:
        first = need is row.needs[0]
        for case in (*_of_need(need, names), *_of_others(row, need, names)):
            yield Case(
                title=f"{need.operation.name} {need.kind.name}: {case.title}",
                entries=(*given, *case.entries),
                allowed=case.allowed,
                always=case.always and first,
            )
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
        yield from _sweep(row, kind, names, given)
    yield from _sweep(row, ResourceType.CLUSTER, names, given)
    if any(need.kind is ResourceType.USER for need in row.needs):
        yield from _sweep(row, ResourceType.USER, names, given)


def _entry(need: Need, names: Names) -> Entry:
    return Entry(kind=need.kind, name=names.of(need.kind), operation=need.operation)


def _of_need(need: Need, names: Names) -> Iterator[Case]:
    """What allows the operation, and what denies it nevertheless."""
    kind, operation, name = need.kind, need.operation, names.of(need.kind)
    prefixed = PatternType.PREFIXED
    prefix = name if kind is ResourceType.CLUSTER else name[:-1]
    patterns = [
        ("literal", name, PatternType.LITERAL),
        ("prefixed", prefix, prefixed),
        ("whole name as prefix", name, prefixed),
    ]
    if kind is not ResourceType.CLUSTER:
        patterns.append(("wildcard", WILDCARD, PatternType.LITERAL))
    literal = Entry(kind=kind, name=name, operation=operation)
    for title, shown, pattern in patterns:
        always = title in {"literal", "prefixed"}
        allow = Entry(kind=kind, name=shown, operation=operation, pattern=pattern)
        yield Case(title=title, entries=(allow,), allowed=True, always=always)
        for who in (USER, WILDCARD):
            deny = Entry(
                kind=kind,
                name=shown,
                operation=operation,
                pattern=pattern,
                permission=Permission.DENY,
                user=who,
            )
            denied = (literal, deny)
            always_too = (title, who) == ("prefixed", USER)
            yield Case(
                title=f"{title}, denied to {who}", entries=denied, allowed=False, always=always_too
            )
    deny_all = Entry(kind=kind, name=name, operation=ALL_OPERATIONS, permission=Permission.DENY)
    yield Case(title="denied by ALL", entries=(literal, deny_all), allowed=False)
    allow_all = Entry(kind=kind, name=name, operation=ALL_OPERATIONS)
    yield Case(title="ALL", entries=(allow_all,), allowed=True)
    everybody = Entry(kind=kind, name=name, operation=operation, user=WILDCARD)
    yield Case(title="everybody", entries=(everybody,), allowed=True)
    here = Entry(kind=kind, name=name, operation=operation, host=HOST)
    yield Case(title="from here", entries=(here,), allowed=True)
    not_here = Entry(
        kind=kind, name=name, operation=operation, permission=Permission.DENY, host=HOST
    )
    yield Case(title="denied from here", entries=(literal, not_here), allowed=False)
    elsewhere = Entry(
        kind=kind, name=name, operation=operation, permission=Permission.DENY, host="10.1.2.3"
    )
    yield Case(title="denied from elsewhere", entries=(literal, elsewhere), allowed=True)


def _of_others(row: Row, need: Need, names: Names) -> Iterator[Case]:
    """What allows somebody else, or something else."""
    kind, operation, name = need.kind, need.operation, names.of(need.kind)
    bob = Entry(kind=kind, name=name, operation=operation, user="bob")
    yield Case(title="another user", entries=(bob,), allowed=False, always=True)
    away = Entry(kind=kind, name=name, operation=operation, host="10.1.2.3")
    yield Case(title="another host", entries=(away,), allowed=False)
    if kind is ResourceType.CLUSTER:
        return
    longer = PatternType.PREFIXED
    for title, other, pattern in (
        ("another name", f"{name}x", PatternType.LITERAL),
        ("the beginning of the name", name[:-1], PatternType.LITERAL),
        ("a longer prefix", f"{name}x", longer),
        ("upper case", name.upper(), PatternType.LITERAL),
    ):
        entry = Entry(kind=kind, name=other, operation=operation, pattern=pattern)
        yield Case(title=title, entries=(entry,), allowed=need.any_name)


def _sweep(row: Row, kind: ResourceType, names: Names, given: tuple[Entry, ...]) -> Iterator[Case]:
    """Every operation alone, on the resource of one type."""
    enough = {need.operation for need in row.needs if need.kind is kind}
    exact = {need.operation for need in row.needs if need.kind is kind and need.any_name}
    for operation in AclOperation:
        entry = Entry(kind=kind, name=names.of(kind), operation=operation)
        implied = _IMPLIED.get(operation)
        allowed = operation in enough or (implied in enough and implied not in exact)
        yield Case(
            title=f"only {operation.name} {kind.name}", entries=(*given, entry), allowed=allowed
        )
