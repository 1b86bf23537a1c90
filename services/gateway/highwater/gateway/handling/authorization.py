"""What several handlers share of authorization: denied names, authorized operations, configs.

Everything goes to the gateway's `Authorizer` by `RequestContext.allows` or as it would; what is asked
for each API is that of Kafka's `KafkaApis` and `ControllerApis`. While everything is allowed, nothing
here costs more than one look at `Authorizer.allows_all`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acl_operations import (
    CLUSTER_OPERATIONS,
    GROUP_OPERATIONS,
    TOPIC_OPERATIONS,
    AclOperation,
)
from highwater.model.authorization import THE_CLUSTER, Resource, ResourceType, denied_names
from highwater.model.config_type import ConfigResourceType
from highwater.model.ids import DEFAULT_INSTANCE

_SUPPORTED: Final[Mapping[ResourceType, int]] = {
    ResourceType.TOPIC: TOPIC_OPERATIONS,
    ResourceType.GROUP: GROUP_OPERATIONS,
    ResourceType.CLUSTER: CLUSTER_OPERATIONS,
}

_OF_THE_CLUSTER: Final = frozenset(
    {
        ConfigResourceType.BROKER,
        ConfigResourceType.BROKER_LOGGER,
        ConfigResourceType.CLIENT_METRICS,
    }
)
"""Resources whose configs are a matter of the cluster."""


def denied_topics(
    context: RequestContext, operation: AclOperation, names: Iterable[str]
) -> frozenset[str]:
    """The names of topics that the client may not do that to."""
    return _denied(context, operation, ResourceType.TOPIC, names)


def denied_groups(
    context: RequestContext, operation: AclOperation, group_ids: Iterable[str]
) -> frozenset[str]:
    """The groups that the client may not do that to."""
    return _denied(context, operation, ResourceType.GROUP, group_ids)


def allowed_on_group(context: RequestContext, operation: AclOperation, group_id: str) -> bool:
    """True if the client may do that to the group."""
    return context.allows(operation, Resource(ResourceType.GROUP, group_id))


def topic_operations(context: RequestContext, name: str) -> int:
    """The operations on a topic that are allowed, as bits; the topic need not exist."""
    return _authorized(context, Resource(ResourceType.TOPIC, name))


def group_operations(context: RequestContext, group_id: str) -> int:
    """The operations on a group that are allowed, as bits."""
    return _authorized(context, Resource(ResourceType.GROUP, group_id))


def operates(context: RequestContext, operation: AclOperation) -> bool:
    """True if the client may do that to what all instances share: nodes, controllers, where replicas are.

    Clients of another instance than the default one never may: they are not the cluster's operators.
    """
    return context.peer.instance == DEFAULT_INSTANCE and context.allows(operation, THE_CLUSTER)


def cluster_operations(context: RequestContext) -> int:
    """The operations on the cluster that are allowed, as bits; none without DESCRIBE."""
    if not context.allows(AclOperation.DESCRIBE, THE_CLUSTER):
        return 0
    return _authorized(context, THE_CLUSTER)


def config_denial(
    context: RequestContext, operation: AclOperation, resource_type: int, name: str
) -> ErrorCode:
    """The code if the client may not do that to the configs of a resource, otherwise NONE.

    Brokers are altered, and their loggers described, by clients of the default instance only.
    A type that Kafka does not know is not denied: its code is the handler's matter. Kafka:
    `ConfigHelper.handleDescribeConfigsRequest` and `ControllerApis.authorizeAlterResource`.
    """
    if resource_type == ConfigResourceType.TOPIC:
        resource = Resource(ResourceType.TOPIC, name)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif resource_type == ConfigResourceType.GROUP:
        resource = Resource(ResourceType.GROUP, name)
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif resource_type in _OF_THE_CLUSTER:
        resource = THE_CLUSTER
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        described = operation == AclOperation.DESCRIBE_CONFIGS
        own = resource_type == ConfigResourceType.CLIENT_METRICS or (
            described and resource_type == ConfigResourceType.BROKER
        )
        if not own and context.peer.instance != DEFAULT_INSTANCE:
            return code
    else:
        return ErrorCode.NONE
    return ErrorCode.NONE if context.allows(operation, resource) else code


def _denied(
    context: RequestContext,
    operation: AclOperation,
    resource_type: ResourceType,
    names: Iterable[str],
) -> frozenset[str]:
    authorizer = context.backend.authorizer
    return denied_names(authorizer, context.client.requester, operation, resource_type, names)


def _authorized(context: RequestContext, resource: Resource) -> int:
    """Of the operations that the resource supports those that are allowed (KIP-430)."""
    supported = _SUPPORTED[resource.resource_type]
    if context.backend.authorizer.allows_all:
        return supported
    return sum(
        1 << operation
        for operation in AclOperation
        if supported >> operation & 1 and context.allows(operation, resource)
    )
