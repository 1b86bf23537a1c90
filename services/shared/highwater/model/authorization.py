"""Who may do what to which resource: the words of Kafka's authorizer, and the one that allows all.

Handlers ask `RequestContext.allows`; what answers is the `Authorizer` of the gateway.
"""

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


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""A client that has not logged in (`KafkaPrincipal.ANONYMOUS`)."""


class Requester(NamedTuple):
    """The client as an authorizer sees it."""

    principal: Principal
    instance: InstanceId
    host: str
    """The client's address without the port."""


class Authorizer(Protocol):
    """Decides what clients may do. Called on the loop for every request: it must not block."""

    def allows(self, who: Requester, operation: AclOperation, resource: Resource) -> bool:
        """True if the operation is allowed."""
        ...


class AllowAll:
    """The `Authorizer` of a cluster without ACLs."""

    def allows(self, who: Requester, operation: AclOperation, resource: Resource) -> bool:  # noqa: ARG002 - the port's.
        """Always True."""
        return True
