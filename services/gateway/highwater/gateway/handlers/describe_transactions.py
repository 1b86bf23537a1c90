"""DescribeTransactions v0: states and partitions of transactions (KIP-664).

Behaviour
- Each transactional id's coordinator answers; results come back in the order of the request. An id
  without a transaction is TRANSACTIONAL_ID_NOT_FOUND.
- Ids that the client may not DESCRIBE are TRANSACTIONAL_ID_AUTHORIZATION_FAILED; topics that it may
  not DESCRIBE are left out.
"""

from highwater.gateway.handling.authorization import denied_topics
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.transactions import (
    allowed_on_transaction,
    ask_transaction_coordinators,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import describe_transactions as codec
from highwater.model.acl_operations import AclOperation

_State = codec.DescribeTransactionsResponseTransactionState


async def handle(
    context: RequestContext, request: codec.DescribeTransactionsRequest
) -> codec.DescribeTransactionsResponse:
    """Asks the coordinators."""
    version = context.api_version
    denied = {
        one
        for one in dict.fromkeys(request.transactional_ids)
        if not allowed_on_transaction(context, AclOperation.DESCRIBE, one)
    }
    found = await ask_transaction_coordinators(
        context,
        [one for one in request.transactional_ids if one not in denied],
        id_of=lambda one: one,
        encode=lambda some: codec.encode_request(codec.DescribeTransactionsRequest(some), version),
        decode=lambda body: codec.decode_response(body, 0, version).transaction_states,
        failed=_failed,
    )
    names = (topic.topic for state in found for topic in state.topics)
    hidden = denied_topics(context, AclOperation.DESCRIBE, names)
    for state in found if hidden else ():
        state.topics = [topic for topic in state.topics if topic.topic not in hidden]
    answers = iter(found)
    return codec.DescribeTransactionsResponse(
        transaction_states=[
            _failed(one, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            if one in denied
            else next(answers)
            for one in request.transactional_ids
        ]
    )


def failure(
    request: codec.DescribeTransactionsRequest, _version: int, code: int
) -> codec.DescribeTransactionsResponse:
    """The code for every transactional id."""
    return codec.DescribeTransactionsResponse(
        transaction_states=[_failed(one, code) for one in request.transactional_ids]
    )


def _failed(transactional_id: str, code: int) -> _State:
    return _State(error_code=code, transactional_id=transactional_id)
