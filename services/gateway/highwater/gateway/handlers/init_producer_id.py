"""InitProducerId v0-4: gives an idempotent producer its id.

Behaviour
- Without a transactional id every call returns a new id with epoch 0 and ignores the producer's
  former id and epoch (v3+), as Kafka does for idempotent producers.
- Ids come from blocks that the controller allocates, one block at a time for the whole gateway.
  While it allocates none, COORDINATOR_LOAD_IN_PROGRESS makes producers ask again, as in Kafka.

Version notes
- v2: flexible. v3: former id and epoch (KIP-360). v4: PRODUCER_FENCED. v5, v6: transactions.

Deviations
- Transactional ids are not served yet: CLUSTER_AUTHORIZATION_FAILED, which ends clients, and a line
  in the log. Most stop before, at the same error of FindCoordinator.
"""

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.model.errors import HighwaterError


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new producer id."""
    version = context.api_version
    if request.transactional_id is not None:
        context.warn("transactions_not_served", transactional_ids=[request.transactional_id])
        return failure(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        producer_id = await context.backend.shared.producer_ids.take(context.backend.controller)
    except HighwaterError as error:
        context.warn("producer_id_allocation_failed", error=str(error))
        producer_id = None
    if producer_id is None:
        return failure(request, version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def failure(_request: InitProducerIdRequest, _version: int, code: int) -> InitProducerIdResponse:
    """No id and no epoch."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
