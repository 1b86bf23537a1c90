"""Access control lists: entries, the filters that find them, and how they decide (KIP-11, KIP-290, KIP-679).

An entry allows or denies principals an operation on the resources of one type that its pattern
matches, from hosts. Values of enums are those of Kafka's requests.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Requester, Resource, ResourceType
from highwater.model.ids import InstanceId
from highwater.model.networks import canonical_address


class PatternType(IntEnum):
    """How an entry's name matches names; values as in Kafka's `PatternType`."""

    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What an entry means; values as in Kafka's `AclPermissionType`."""

    DENY = 2
    ALLOW = 3


ANY: Final = 1
"""In filters: of every type, pattern, operation or permission."""
MATCH: Final = 2
"""In filters, as a pattern: every entry that matches a resource of that name."""
ALL_OPERATIONS: Final = 2
"""An entry's operation that means every one (`AclOperation.ALL`)."""
WILDCARD: Final = "*"
"""A literal name, a host, or the name in a principal, that means every one."""

OPERATIONS: Final = frozenset((ALL_OPERATIONS, *AclOperation, 14, 15))
"""What entries may name: also DESCRIBE_TOKENS and TWO_PHASE_COMMIT, which nothing asks for."""


class Acl(NamedTuple):
    """One entry."""

    instance: InstanceId
    resource_type: int
    pattern_type: int
    name: str
    principal: str
    """As `User:alice`."""
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """Which entries of an instance are meant; None is any."""

    instance: InstanceId
    resource_type: int
    pattern_type: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """True if the entry is meant (Kafka: `AclBindingFilter`)."""
        return (
            acl.instance == self.instance
            and self.resource_type in {ANY, acl.resource_type}
            and self.operation in {ANY, acl.operation}
            and self.permission in {ANY, acl.permission}
            and self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self._means_pattern(acl)
        )

    def _means_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in {ANY, MATCH, acl.pattern_type}:
            return False
        if self.name is None:
            return True
        if self.pattern_type == MATCH:
            return matches_name(acl, self.name)
        return acl.name == self.name


_TYPES: Final = frozenset(ResourceType)
_PATTERNS: Final = frozenset(PatternType)
_PERMISSIONS: Final = frozenset(Permission)
_ANY_ONE: Final = frozenset((ANY,))


def invalid_entry(acl: Acl) -> str | None:
    """Which of its numbers is not known, or None."""
    return _unknown(acl.resource_type, acl.pattern_type, acl.operation, acl.permission)


def invalid_filter(wanted: AclFilter) -> str | None:
    """Which of its numbers is not known, or None."""
    return _unknown(
        wanted.resource_type,
        wanted.pattern_type,
        wanted.operation,
        wanted.permission,
        also=_ANY_ONE,
        also_patterns=_ANY_ONE | {MATCH},
    )


def _unknown(
    resource_type: int,
    pattern_type: int,
    operation: int,
    permission: int,
    *,
    also: frozenset[int] = frozenset(),
    also_patterns: frozenset[int] = frozenset(),
) -> str | None:
    for what, value, known in (
        ("resource type", resource_type, _TYPES | also),
        ("pattern type", pattern_type, _PATTERNS | also_patterns),
        ("operation", operation, OPERATIONS | also),
        ("permission type", permission, _PERMISSIONS | also),
    ):
        if value not in known:
            return f"Invalid {what} {value}"
    return None


def matches_name(acl: Acl, name: str) -> bool:
    """True if the entry is about resources of that name."""
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in {name, WILDCARD}


_IMPLIES: Final = {
    AclOperation.DESCRIBE: frozenset(
        (
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        )
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
    ),
}
"""What else may be done by who is allowed one of these (`StandardAuthorizerData`)."""


class AclTable:
    """The entries of a cluster at one time, ready to be asked. Never changed.

    Hosts are compared as addresses: `Requester.host` is in the form of `canonical_address`.
    """

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._by_type: dict[tuple[InstanceId, int], _OfType] = {}
        for acl in acls:
            key = acl.instance, acl.resource_type
            # Java writes ::1 as 0:0:0:0:0:0:0:1, and Kafka's tools hand on what somebody wrote.
            compared = acl._replace(host=canonical_address(acl.host))
            self._by_type.setdefault(key, _OfType()).add(compared)

    def decide(self, who: Requester, operation: AclOperation, resource: Resource) -> bool | None:
        """True if allowed, False if denied; None if no entry is about the resource.

        An entry that denies is stronger than all that allow.
        """
        of_type = self._by_type.get((who.instance, resource.resource_type))
        found = [] if of_type is None else of_type.about(resource.name)
        if not found:
            return None
        principals = _principals(who)
        mine = [
            acl for acl in found if acl.principal in principals and acl.host in {who.host, WILDCARD}
        ]
        if any(
            acl.permission == Permission.DENY and acl.operation in {operation, ALL_OPERATIONS}
            for acl in mine
        ):
            return False
        allowing = _IMPLIES.get(operation, frozenset((operation,)))
        return any(
            acl.permission == Permission.ALLOW
            and (acl.operation == ALL_OPERATIONS or acl.operation in allowing)
            for acl in mine
        )

    def decide_any(
        self, who: Requester, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """True if the operation is allowed on at least one resource, which need not exist.

        Kafka: `Authorizer.authorizeByResourceType`.
        """
        of_type = self._by_type.get((who.instance, resource_type))
        if of_type is None:
            return False
        principals = _principals(who)
        mine = [
            acl
            for acl in of_type.all
            if acl.principal in principals
            and acl.host in {who.host, WILDCARD}
            and acl.operation in {operation, ALL_OPERATIONS}
        ]
        denied = [acl for acl in mine if acl.permission == Permission.DENY]
        return any(
            acl.permission == Permission.ALLOW and not any(_covers(no, acl) for no in denied)
            for acl in mine
        )


class _OfType:
    """The entries of an instance about resources of one type."""

    def __init__(self) -> None:
        self.all: list[Acl] = []
        self._literal: dict[str, list[Acl]] = {}
        self._prefixed: dict[str, list[Acl]] = {}
        self._lengths: set[int] = set()
        """Of prefixes: so many look-ups a name takes, however many entries there are."""

    def add(self, acl: Acl) -> None:
        self.all.append(acl)
        if acl.pattern_type == PatternType.PREFIXED:
            self._prefixed.setdefault(acl.name, []).append(acl)
            self._lengths.add(len(acl.name))
        else:
            self._literal.setdefault(acl.name, []).append(acl)

    def about(self, name: str) -> list[Acl]:
        found = [*self._literal.get(name, ()), *self._literal.get(WILDCARD, ())]
        for length in self._lengths:
            if length <= len(name):
                found += self._prefixed.get(name[:length], ())
        return found


def _covers(denying: Acl, allowing: Acl) -> bool:
    """True if whatever one entry allows, the other denies."""
    if denying.pattern_type == PatternType.PREFIXED:
        literal_all = allowing.pattern_type == PatternType.LITERAL and allowing.name == WILDCARD
        return not literal_all and allowing.name.startswith(denying.name)
    if denying.name == WILDCARD:
        return True
    return allowing.pattern_type == PatternType.LITERAL and allowing.name == denying.name


def _principals(who: Requester) -> tuple[str, str]:
    kind, name = who.principal
    return f"{kind}:{name}", f"{kind}:{WILDCARD}"
