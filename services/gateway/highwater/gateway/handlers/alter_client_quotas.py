"""AlterClientQuotas v0-1: sets and removes quotas of users, client ids and addresses (KIP-546).

Behaviour
- The controller checks the changes and stores them for the instance of the client's port. Each
  entity is answered once. A change of which anything is wrong is not made: INVALID_REQUEST.
- An entity that is named twice, or one of whose quotas is, gets INVALID_REQUEST; if it is named
  twice, its first change is made all the same, as in Kafka.
- Without ALTER_CONFIGS on the cluster: CLUSTER_AUTHORIZATION_FAILED for every entity.

Version notes
- v1: flexible.

Deviations
- They are not the limits of instances that the quota service shares out; of both the longer delay counts.
- The name of an `ip` has to be an address; Kafka takes names of hosts that it can look up, too.
- At most 10 000 entities of an instance have quotas (POLICY_VIOLATION); names have at most 1 024
  characters. Values have to be finite.
"""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import await_visible, call_timeout_s
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from highwater.metadata.convert_access import entity_to_pb
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.client_quotas import QuotaEntity, quota_entity


async def handle(
    context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Asks the controller."""
    if not context.allows(AclOperation.ALTER_CONFIGS, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    entities = [_entity(entry) for entry in request.entries]
    response = await context.backend.controller.alter_client_quotas(
        pb.AlterClientQuotasRequest(
            instance=context.peer.instance,
            alterations=[
                pb.ClientQuotaAlteration(
                    entity=entity_to_pb(entity),
                    operations=[
                        pb.ClientQuotaOperation(key=op.key, value=None if op.remove else op.value)
                        for op in entry.ops
                    ],
                )
                for entity, entry in zip(entities, request.entries, strict=True)
            ],
            validate_only=request.validate_only,
        ),
        timeout_s=call_timeout_s(context),
    )
    await await_visible(context, response.revision)
    errors = dict(zip(entities, response.errors, strict=True))
    return AlterClientQuotasResponse(
        entries=[
            _entry(entity, error.error_code, error.message or None)
            for entity, error in errors.items()
        ]
    )


def failure(
    request: AlterClientQuotasRequest, _version: int, code: int
) -> AlterClientQuotasResponse:
    """The code for every entity."""
    message = ErrorCode(code).message
    return AlterClientQuotasResponse(
        entries=[_entry(_entity(entry), code, message) for entry in request.entries]
    )


def _entity(entry: AlterClientQuotasRequestEntryData) -> QuotaEntity:
    return quota_entity((part.entity_type, part.entity_name) for part in entry.entity)


def _entry(
    entity: QuotaEntity, code: int, message: str | None
) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=code,
        error_message=message,
        entity=[AlterClientQuotasResponseEntityData(kind, name) for kind, name in entity],
    )
