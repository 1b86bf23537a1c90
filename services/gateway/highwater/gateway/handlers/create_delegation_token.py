"""CreateDelegationToken v1-3: refused, since there are no delegation tokens (KIP-48).

Behaviour
- DELEGATION_TOKEN_AUTH_DISABLED, as in a cluster of Kafka's where tokens are disabled;
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for clients that have no login and no certificate.
- For another owner without CREATE_TOKENS on that user: DELEGATION_TOKEN_AUTHORIZATION_FAILED. A renewer
  who is no user: INVALID_PRINCIPAL_TYPE.

Version notes
- v2: flexible. v3: the owner may be another user than the client (KIP-373).
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.delegation_tokens import NEVER_MS, why_none
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import create_delegation_token as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import USER, Principal, Resource, ResourceType


async def handle(
    context: RequestContext, request: codec.CreateDelegationTokenRequest
) -> codec.CreateDelegationTokenResponse:
    """Refuses."""
    requester = context.client.requester.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = failure(request, context.api_version, _why_none(context, request, owner))
    response.principal_type, response.principal_name = owner
    response.token_requester_principal_type, response.token_requester_principal_name = requester
    return response


def failure(
    _request: codec.CreateDelegationTokenRequest, _version: int, code: int
) -> codec.CreateDelegationTokenResponse:
    """The code and no token."""
    return codec.CreateDelegationTokenResponse(
        error_code=code,
        issue_timestamp_ms=NEVER_MS,
        expiry_timestamp_ms=NEVER_MS,
        max_timestamp_ms=NEVER_MS,
    )


def _why_none(
    context: RequestContext, request: codec.CreateDelegationTokenRequest, owner: Principal
) -> ErrorCode:
    """In the order of Kafka's `KafkaApis.handleCreateTokenRequest`."""
    requester = context.client.requester.principal
    code = why_none(context)
    if code != ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED:
        return code
    user = Resource(ResourceType.USER, f"{owner.principal_type}:{owner.name}")
    if owner != requester and not context.allows(AclOperation.CREATE_TOKENS, user):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if any(renewer.principal_type != USER for renewer in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return code
