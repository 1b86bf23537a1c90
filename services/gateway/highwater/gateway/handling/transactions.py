"""Calls to transaction coordinators: who may make them, and requests that go to several of them.

Coordinators lead partitions of a topic of transactions; see `handling.coordinators` for the way there.
While a transactional id has no coordinator, or another one than its client asks, the code in the
API's own response makes the client ask FindCoordinator again (Java: `TransactionManager`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import (
    ALL_LED,
    NOT_AVAILABLE,
    CoordinatorPlace,
    GroupCodec,
    ask_coordinator,
    ask_node,
    place_of,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Resource, ResourceType
from highwater.model.ids import TRANSACTION_STATE_TOPIC, NodeId

T = TypeVar("T")
R = TypeVar("R")
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


def allowed_on_transaction(
    context: RequestContext, operation: AclOperation, transactional_id: str
) -> bool:
    """True if the client may do that to the transactional id."""
    return context.allows(operation, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id))


async def forward_transaction(
    context: RequestContext,
    body: memoryview,
    request: _Request,
    transactional_id: str,
    *,
    codec: GroupCodec[_Request, _Response],
    failure: Callable[[_Request, int, int], _Response],
) -> bytes:
    """Passes a request to the coordinator of its transactional id, if that is the node that the client
    chose; `request` is the body, decoded.

    An error code is put into the API's response.
    """
    deadline_ms = context.backend.settings.request_timeout_ms
    code, response = await ask_coordinator(
        context, transactional_id, body, deadline_ms, TRANSACTION_STATE_TOPIC
    )
    if code == ErrorCode.NONE:
        return response
    version = context.api_version
    return codec.encode_response(failure(request, version, code), version)


async def ask_transaction_coordinators(
    context: RequestContext,
    items: Sequence[T],
    *,
    id_of: Callable[[T], str],
    encode: Callable[[list[T]], bytes],
    decode: Callable[[bytes], Sequence[R]],
    failed: Callable[[T, int], R],
) -> list[R]:
    """Results in the order of `items`; each node that coordinates some of them gets one call.

    `encode` makes a request for some of the items; `decode` returns one result of the response for
    each of them, in order. If a node cannot be asked, only its own items fail.
    """
    results: dict[int, R] = {}
    by_node: dict[NodeId, list[int]] = {}
    for index, item in enumerate(items):
        place = place_of(context, id_of(item), TRANSACTION_STATE_TOPIC)
        if place is None:
            results[index] = failed(item, NOT_AVAILABLE.error_code)
        else:
            by_node.setdefault(place.node, []).append(index)

    async def ask(node: NodeId, indexes: list[int]) -> None:
        some = [items[index] for index in indexes]
        deadline_ms = context.backend.settings.request_timeout_ms
        place = CoordinatorPlace(node, ALL_LED)
        code, body = await ask_node(context, place, encode(some), deadline_ms)
        answers = [failed(item, code) for item in some] if code else decode(body)
        results.update(zip(indexes, answers, strict=True))

    async with asyncio.TaskGroup() as tasks:
        for node, indexes in by_node.items():
            tasks.create_task(ask(node, indexes))
    return [results[index] for index in range(len(items))]
