"""InitProducerId v0-4: an idempotent producer gets its id.

Behaviour
- Without a transactional id every call gives a new id with epoch 0, whatever id and epoch the
  producer had before (v3+): for idempotent producers Kafka does the same.
- Ids come from blocks of the controller, one block at a time for the whole gateway. While the
  controller gives none, COORDINATOR_LOAD_IN_PROGRESS makes producers ask again, as in Kafka.

Version notes
- v2: flexible. v3: id and epoch of before (KIP-360). v4: PRODUCER_FENCED. v5, v6: transactions.

Deviations
- Transactional ids are not served yet: INVALID_REQUEST with a line in the log. Clients only get
  here if they pass FindCoordinator, which says so first.
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
        return failure(request, version, ErrorCode.INVALID_REQUEST)
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
