"""Who may do what to which resource: the words of Kafka's authorizer, and the one that allows all.

Handlers ask `RequestContext.allows`; what answers is the `Authorizer` of the gateway.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from highwater.model.acl_operations import AclOperation
from highwater.model.ids import InstanceId


class ResourceType(IntEnum):
    """What an ACL protects; values as in Kafka's `ResourceType`."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Resource(NamedTuple):
    """One thing that a request touches, by the name that the client knows it by."""

    resource_type: ResourceType
    name: str


THE_CLUSTER: Final = Resource(ResourceType.CLUSTER, "kafka-cluster")
"""The only resource of type CLUSTER (`Resource.CLUSTER_NAME` in Kafka)."""


class Principal(NamedTuple):
    """Whom a client has proven to be."""

    principal_type: str
    name: str


USER: Final = "User"
"""The type of all principals (`KafkaPrincipal.USER_TYPE`)."""

ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""A client that has not logged in (`KafkaPrincipal.ANONYMOUS`)."""


class Requester(NamedTuple):
    """The client as an authorizer sees it."""

    principal: Principal
    instance: InstanceId
    host: str
    """The client's address without the port, as `networks.canonical_address` has it."""


class TopicView(NamedTuple):
    """Which topics of its instance a client may DESCRIBE, for who has the image's ACLs and no authorizer:
    the coordinator of a group that reads what a regular expression matches.
    """

    principal: Principal
    host: str
    visible_without_acl: bool
    """Whether it may DESCRIBE a topic that no entry is about."""


class Authorizer(Protocol):
    """Decides what clients may do. Called on the loop for every request: it must not block.

    What one operation implies is its business, not the handlers' (Kafka: `StandardAuthorizerData`):
    READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS.

    Produce and Fetch do not ask for a request that has the shape of the connection's last one, all
    of whose topics were allowed (`Session.tail`, `Session.fetch_shape`).
    """

    @property
    def allows_all(self) -> bool:
        """True if nothing is ever denied: then nobody needs to ask, or to decode what to ask for."""
        ...

    def allows(self, who: Requester, operation: AclOperation, resource: Resource) -> bool:
        """True if the operation is allowed."""
        ...

    def allows_any(
        self, who: Requester, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """True if it is allowed on at least one resource of that type, which need not exist yet.

        Kafka: `Authorizer.authorizeByResourceType`.
        """
        ...

    def topic_view(self, who: Requester) -> TopicView | None:
        """What the client may DESCRIBE; None if that is every topic of its instance."""
        ...


class AllowAll:
    """The `Authorizer` of a cluster without ACLs."""

    allows_all: Final = True

    def allows(self, who: Requester, operation: AclOperation, resource: Resource) -> bool:  # noqa: ARG002 - the port's.
        """Always True."""
        return True

    def allows_any(
        self,
        who: Requester,  # noqa: ARG002 - the port's.
        operation: AclOperation,  # noqa: ARG002
        resource_type: ResourceType,  # noqa: ARG002
    ) -> bool:
        """Always True."""
        return True

    def topic_view(self, who: Requester) -> TopicView | None:  # noqa: ARG002 - the port's.
        """Always None: every topic."""
        return None


def denied_names(
    authorizer: Authorizer,
    who: Requester,
    operation: AclOperation,
    resource_type: ResourceType,
    names: Iterable[str],
) -> frozenset[str]:
    """Those of the resources that the client may not do that to; each name is asked about once."""
    if authorizer.allows_all:
        return _NO_NAMES
    return frozenset(
        name
        for name in dict.fromkeys(names)
        if not authorizer.allows(who, operation, Resource(resource_type, name))
    )


_NO_NAMES: Final[frozenset[str]] = frozenset()
