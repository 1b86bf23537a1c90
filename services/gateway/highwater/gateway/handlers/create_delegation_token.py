"""CreateDelegationToken v1-3: refused, since there are no delegation tokens (KIP-48).

Behaviour
- DELEGATION_TOKEN_AUTH_DISABLED, as in a cluster of Kafka's where tokens are disabled;
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for clients that have no login and no certificate.

Version notes
- v2: flexible. v3: the owner may be another user than the client (KIP-373).
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.delegation_tokens import NEVER_MS, why_none
from highwater.kafka.messages import create_delegation_token as codec


async def handle(
    context: RequestContext, request: codec.CreateDelegationTokenRequest
) -> codec.CreateDelegationTokenResponse:
    """Refuses."""
    response = failure(request, context.api_version, why_none(context))
    principal = context.client.requester.principal
    response.principal_type, response.principal_name = principal
    response.token_requester_principal_type, response.token_requester_principal_name = principal
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
