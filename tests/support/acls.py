"""ACLs and clients for tests."""

from __future__ import annotations

from highwater.model.acl_operations import AclOperation
from highwater.model.acls import WILDCARD, Acl, PatternType, Permission
from highwater.model.authorization import USER, Principal, Requester, ResourceType
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId


def acl(
    name: str = "t",
    operation: int = AclOperation.READ,
    permission: int = Permission.ALLOW,
    *,
    pattern: int = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = WILDCARD,
    kind: int = ResourceType.TOPIC,
    instance: InstanceId = DEFAULT_INSTANCE,
) -> Acl:
    """An entry that allows alice to read the topic t, but for what is said."""
    return Acl(instance, kind, pattern, name, principal, host, operation, permission)


def who(
    name: str = "alice", host: str = "10.0.0.1", instance: InstanceId = DEFAULT_INSTANCE
) -> Requester:
    """A client that has logged in."""
    return Requester(Principal(USER, name), instance, host)
