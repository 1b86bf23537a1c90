"""ListTransactions v0-2: the transactions that a broker coordinates (KIP-664).

Behaviour
- As in Kafka a broker lists the transactions that it coordinates, and the port determines the broker;
  tools ask all of them. A port that stands for no broker answers for the whole cluster.
- A client sees the transactional ids that it may DESCRIBE.
- If a coordinator cannot be asked, its code is at the top, and the transactions of the others are
  listed.

Version notes
- v1: a filter by duration (KIP-994). v2: a filter by a pattern of transactional ids (KIP-1152).
"""

import asyncio
from itertools import chain

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import (
    ALL_LED,
    CoordinatorPlace,
    ask_node,
    leading_nodes,
)
from highwater.gateway.handling.transactions import allowed_on_transaction
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import list_transactions as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.ids import TRANSACTION_STATE_TOPIC, NodeId


async def handle(
    context: RequestContext, request: codec.ListTransactionsRequest
) -> codec.ListTransactionsResponse:
    """Asks the nodes."""
    nodes = leading_nodes(context, TRANSACTION_STATE_TOPIC)
    if context.peer.node is not None:
        nodes = [node for node in nodes if node == context.peer.node]
    body = codec.encode_request(request, context.api_version)
    async with asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(_ask(context, node, body)) for node in nodes]
    parts = [answer.result() for answer in answers]
    unknown = chain.from_iterable(part.unknown_state_filters for part in parts)
    return codec.ListTransactionsResponse(
        error_code=next((part.error_code for part in parts if part.error_code), ErrorCode.NONE),
        unknown_state_filters=list(dict.fromkeys(unknown)),
        transaction_states=[
            state
            for part in parts
            for state in part.transaction_states
            if allowed_on_transaction(context, AclOperation.DESCRIBE, state.transactional_id)
        ],
    )


def failure(
    _request: codec.ListTransactionsRequest, _version: int, code: int
) -> codec.ListTransactionsResponse:
    """The code at the top."""
    return codec.ListTransactionsResponse(error_code=code)


async def _ask(
    context: RequestContext, node: NodeId, body: bytes
) -> codec.ListTransactionsResponse:
    place = CoordinatorPlace(node, ALL_LED)
    deadline_ms = context.backend.settings.request_timeout_ms
    code, response = await ask_node(context, place, body, deadline_ms)
    if code:
        return codec.ListTransactionsResponse(error_code=code)
    return codec.decode_response(response, 0, context.api_version)
