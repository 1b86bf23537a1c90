"""ACLs in Kafka's requests: filters, and what all three APIs answer without an authorizer."""

from typing import Final, Protocol

from highwater.gateway.handling.context import RequestContext
from highwater.model.acls import AclFilter

NO_AUTHORIZER: Final = "No Authorizer is configured"
"""The beginning of Kafka's message (`AclApis.scala`), which ends differently in each API."""


class FilterMessage(Protocol):
    """The fields that DescribeAcls and each filter of DeleteAcls have."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def acl_filter(context: RequestContext, message: FilterMessage) -> AclFilter:
    """The filter, within the client's instance."""
    return AclFilter(
        instance=context.peer.instance,
        resource_type=message.resource_type_filter,
        pattern_type=message.pattern_type_filter,
        name=message.resource_name_filter,
        principal=message.principal_filter,
        host=message.host_filter,
        operation=message.operation,
        permission=message.permission_type,
    )
