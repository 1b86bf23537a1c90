"""AddOffsetsToTxn v0-4: the offsets of a group join a transaction (KIP-98).

Behaviour
- Needs WRITE on the transactional id, otherwise TRANSACTIONAL_ID_AUTHORIZATION_FAILED, and READ on
  the group, otherwise GROUP_AUTHORIZATION_FAILED.
- The transaction's coordinator adds the group's partition of the group metadata topic; the body passes
  through unchanged. The offsets themselves follow in TxnOffsetCommit.

Version notes
- v1: throttle time. v2: PRODUCER_FENCED. v3: flexible. v4: TRANSACTION_ABORTABLE (KIP-890).
"""

from highwater.gateway.handling.authorization import allowed_on_group
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.transactions import allowed_on_transaction, forward_transaction
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import add_offsets_to_txn as codec
from highwater.model.acl_operations import AclOperation


async def handle(context: RequestContext, body: memoryview) -> bytes:
    """Passes the call to the coordinator of the transactional id."""
    version = context.api_version
    request = codec.decode_request(body, 0, version)
    code = _denial(context, request)
    if code:
        return codec.encode_response(failure(request, version, code), version)
    return await forward_transaction(
        context, body, request, request.transactional_id, codec=codec, failure=failure
    )


def failure(
    _request: codec.AddOffsetsToTxnRequest, _version: int, code: int
) -> codec.AddOffsetsToTxnResponse:
    """The code."""
    return codec.AddOffsetsToTxnResponse(error_code=code)


def _denial(context: RequestContext, request: codec.AddOffsetsToTxnRequest) -> ErrorCode:
    if not allowed_on_transaction(context, AclOperation.WRITE, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not allowed_on_group(context, AclOperation.READ, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE
