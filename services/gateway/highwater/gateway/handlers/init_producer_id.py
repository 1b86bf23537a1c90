"""InitProducerId v0-4: gives an idempotent producer its id.

Behaviour
- An idempotent producer needs IDEMPOTENT_WRITE on the cluster or WRITE on any topic, otherwise
  CLUSTER_AUTHORIZATION_FAILED; one with a transactional id needs WRITE on that, otherwise
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
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
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER, Resource, ResourceType
from highwater.model.errors import HighwaterError


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new producer id."""
    version = context.api_version
    denial = _denial(context, request.transactional_id)
    if denial is not None:
        return failure(request, version, denial)
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


def _denial(context: RequestContext, transactional_id: str | None) -> ErrorCode | None:
    if transactional_id is not None:
        resource = Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)
        if context.allows(AclOperation.WRITE, resource):
            return None
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allowed = context.allows(AclOperation.IDEMPOTENT_WRITE, THE_CLUSTER) or context.allows_any(
        AclOperation.WRITE, ResourceType.TOPIC
    )
    return None if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
