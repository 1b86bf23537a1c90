"""The `Authorizer` that goes by the cluster's ACLs (Kafka: `StandardAuthorizer`).

Entries come with the image. They are made ready to be asked when the first question comes after a change.
"""

from collections.abc import Callable
from typing import Final

from highwater.model.acl_operations import AclOperation
from highwater.model.acls import Acl, AclTable
from highwater.model.authorization import Requester, Resource, ResourceType, TopicView
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId

_NAMED_BY_NOBODY: Final = "hardcode"
"""Kafka's name for the resource by which it asks whether somebody may do a thing anywhere."""


class AclAuthorizer:
    """See the module. Lives as long as the gateway."""

    allows_all: Final = False

    def __init__(
        self,
        acls: Callable[[], frozenset[Acl]],
        *,
        super_users: frozenset[str],
        allow_if_no_acl: Callable[[InstanceId], bool],
    ) -> None:
        """`acls` returns those of the newest image. `super_users`, as `User:alice`, may do everything in the
        default instance: who runs another one has ACLs, and anybody may have any name there.
        `allow_if_no_acl`: so may everybody of that instance with a resource that no entry is about.
        """
        self._acls = acls
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self._made_of: frozenset[Acl] = frozenset()
        self._table = AclTable(())

    def allows(self, who: Requester, operation: AclOperation, resource: Resource) -> bool:
        """See `Authorizer`."""
        if self._is_super(who):
            return True
        decided = self._newest().decide(who, operation, resource)
        return self._allow_if_no_acl(who.instance) if decided is None else decided

    def allows_any(
        self, who: Requester, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """See `Authorizer`."""
        if self.allows(who, operation, Resource(resource_type, _NAMED_BY_NOBODY)):
            return True
        return self._newest().decide_any(who, operation, resource_type)

    def topic_view(self, who: Requester) -> TopicView | None:
        """See `Authorizer`."""
        if self._is_super(who):
            return None
        return TopicView(who.principal, who.host, self._allow_if_no_acl(who.instance))

    def _is_super(self, who: Requester) -> bool:
        if who.instance != DEFAULT_INSTANCE:
            return False
        return f"{who.principal.principal_type}:{who.principal.name}" in self._super_users

    def _newest(self) -> AclTable:
        acls = self._acls()
        if acls is not self._made_of:
            self._made_of = acls
            self._table = AclTable(acls)
        return self._table
