"""ListGroups v0-5: the groups that a broker coordinates.

Behaviour
- As in Kafka a broker lists the groups that it coordinates, and the port determines the broker;
  tools ask all of them. A port that stands for no broker answers for the whole cluster.
- A client without DESCRIBE on the cluster sees the groups that it may DESCRIBE.
- If a coordinator cannot be asked, its code is at the top, and the groups of the others are listed.

Version notes
- v1: throttle time. v3: flexible. v4: states, and a filter by state (KIP-518).
- v5: types, and a filter by type (KIP-848): "classic" or "consumer".
"""

import asyncio

from highwater.gateway.handling.authorization import denied_groups
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import (
    ALL_LED,
    CoordinatorPlace,
    ask_node,
    leading_nodes,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import list_groups as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.ids import NodeId

_Group = codec.ListGroupsResponseListedGroup


async def handle(
    context: RequestContext, request: codec.ListGroupsRequest
) -> codec.ListGroupsResponse:
    """Asks the nodes."""
    nodes = leading_nodes(context)
    if context.peer.node is not None:
        nodes = [node for node in nodes if node == context.peer.node]
    body = codec.encode_request(request, context.api_version)
    async with asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(_ask(context, node, body)) for node in nodes]
    parts = [answer.result() for answer in answers]
    return codec.ListGroupsResponse(
        error_code=next((part.error_code for part in parts if part.error_code), ErrorCode.NONE),
        groups=_visible(context, [group for part in parts for group in part.groups]),
    )


def failure(
    _request: codec.ListGroupsRequest, _version: int, code: int
) -> codec.ListGroupsResponse:
    """The code at the top."""
    return codec.ListGroupsResponse(error_code=code)


def _visible(context: RequestContext, groups: list[_Group]) -> list[_Group]:
    if context.allows(AclOperation.DESCRIBE, THE_CLUSTER):
        return groups
    denied = denied_groups(context, AclOperation.DESCRIBE, (one.group_id for one in groups))
    return [one for one in groups if one.group_id not in denied]


async def _ask(context: RequestContext, node: NodeId, body: bytes) -> codec.ListGroupsResponse:
    place = CoordinatorPlace(node, ALL_LED)
    deadline_ms = context.backend.settings.request_timeout_ms
    code, response = await ask_node(context, place, body, deadline_ms)
    if code:
        return codec.ListGroupsResponse(error_code=code)
    return codec.decode_response(response, 0, context.api_version)
