"""EndTxn v0-5: commits or aborts a transaction (KIP-98).

Behaviour
- Needs WRITE on the transactional id, otherwise TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
- The coordinator answers when the decision is committed; it writes the markers after that. The body
  passes through unchanged.

Version notes
- v1: throttle time. v2: PRODUCER_FENCED. v3: flexible. v4: TRANSACTION_ABORTABLE (KIP-890).
- v5: clients with transaction.version 2; each end raises the producer's epoch, and the answer has the
  producer id and epoch of the next transaction.
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.transactions import allowed_on_transaction, forward_transaction
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import end_txn as codec
from highwater.model.acl_operations import AclOperation


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the coordinator of the transactional id."""
    version = context.api_version
    request = codec.decode_request(body, 0, version)
    if not allowed_on_transaction(context, AclOperation.WRITE, request.transactional_id):
        denial = failure(request, version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return codec.encode_response(denial, version)
    return await forward_transaction(
        context, body, request, request.transactional_id, codec=codec, failure=failure
    )


def failure(_request: codec.EndTxnRequest, _version: int, code: int) -> codec.EndTxnResponse:
    """The code, without a producer."""
    return codec.EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)
