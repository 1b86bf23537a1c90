"""The `Authorizer` that denies topics to clients by their address, and leaves the rest to another one."""

from highwater.gateway.login.topic_networks import TopicNetworks
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import (
    Authorizer,
    Requester,
    Resource,
    ResourceType,
    TopicView,
)


class NetworkAuthorizer:
    """Denies WRITE and READ on topics whose lists the client's address is not in.

    Other operations are not a matter of addresses. Lives as long as the gateway.
    """

    def __init__(self, inner: Authorizer, topics: TopicNetworks) -> None:
        self._inner = inner
        self._topics = topics

    @property
    def allows_all(self) -> bool:
        """See `Authorizer`: False while some topic has a list."""
        return not self._topics.by_name and self._inner.allows_all

    def allows(self, who: Requester, operation: AclOperation, resource: Resource) -> bool:
        """See `Authorizer`."""
        if resource.resource_type == ResourceType.TOPIC:
            lists = self._topics.by_name.get((who.instance, resource.name))
            if lists is not None:
                if operation == AclOperation.WRITE:
                    networks = lists.produce
                elif operation == AclOperation.READ:
                    networks = lists.consume
                else:
                    networks = None
                if networks is not None and not networks.holds(who.host):
                    return False
        return self._inner.allows(who, operation, resource)

    def allows_any(
        self, who: Requester, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """See `Authorizer`: a topic that does not exist yet has no list."""
        return self._inner.allows_any(who, operation, resource_type)

    def topic_view(self, who: Requester) -> TopicView | None:
        """See `Authorizer`: addresses do not matter to DESCRIBE."""
        return self._inner.topic_view(who)
