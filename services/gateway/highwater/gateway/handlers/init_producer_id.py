"""InitProducerId v0-5: gives an idempotent or transactional producer its id and epoch.

Behaviour
- An idempotent producer needs IDEMPOTENT_WRITE on the cluster or WRITE on any topic, otherwise
  CLUSTER_AUTHORIZATION_FAILED; one with a transactional id needs WRITE on that, otherwise
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
- Without a transactional id every call returns a new id with epoch 0 and ignores the producer's
  former id and epoch (v3+), as Kafka does for idempotent producers; one of the two without the other is
  INVALID_REQUEST.
- With a transactional id its coordinator answers: it aborts what a former producer has left open, fences
  that by a higher epoch, and remembers the timeout. An unfinished end of the former transaction is
  CONCURRENT_TRANSACTIONS; producers ask again.
- Ids come from blocks that the controller allocates, one block at a time for the whole gateway.
  While it allocates none, COORDINATOR_LOAD_IN_PROGRESS makes producers ask again, as in Kafka.

Version notes
- v2: flexible. v3: former id and epoch (KIP-360). v4: PRODUCER_FENCED. v5: TRANSACTION_ABORTABLE
  (KIP-890). v6, two-phase commit (KIP-939), is not served.
"""

from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import ask_coordinator
from highwater.gateway.handling.transactions import allowed_on_transaction
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    decode_response,
    encode_request,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER, ResourceType
from highwater.model.errors import HighwaterError
from highwater.model.ids import TRANSACTION_STATE_TOPIC

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new producer id."""
    version = context.api_version
    denial = _denial(context, request.transactional_id)
    if denial is not None:
        return failure(request, version, denial)
    if request.transactional_id is not None:
        return await _of_coordinator(context, request, request.transactional_id)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return failure(request, version, ErrorCode.INVALID_REQUEST)
    try:
        producer_id = await context.backend.shared.producer_ids.take(context.backend.controller)
    except HighwaterError as error:
        context.warn("producer_id_allocation_failed", error=str(error))
        producer_id = None
    if producer_id is None:
        return failure(request, version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _of_coordinator(
    context: RequestContext, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    version = context.api_version
    code, body = await ask_coordinator(
        context,
        transactional_id,
        encode_request(request, version),
        context.backend.settings.request_timeout_ms,
        TRANSACTION_STATE_TOPIC,
    )
    return failure(request, version, code) if code else decode_response(body, 0, version)


def failure(_request: InitProducerIdRequest, _version: int, code: int) -> InitProducerIdResponse:
    """No id and no epoch."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def _denial(context: RequestContext, transactional_id: str | None) -> ErrorCode | None:
    if transactional_id is not None:
        if allowed_on_transaction(context, AclOperation.WRITE, transactional_id):
            return None
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allowed = context.allows(AclOperation.IDEMPOTENT_WRITE, THE_CLUSTER) or context.allows_any(
        AclOperation.WRITE, ResourceType.TOPIC
    )
    return None if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
