"""ExpireDelegationToken v1-2: refused, since there are no delegation tokens (KIP-48).

Behaviour
- DELEGATION_TOKEN_AUTH_DISABLED, as in a cluster of Kafka's where tokens are disabled;
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for clients that have no login and no certificate.

Version notes
- v2: flexible.
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.delegation_tokens import NEVER_MS, why_none
from highwater.kafka.messages import expire_delegation_token as codec


async def handle(
    context: RequestContext, request: codec.ExpireDelegationTokenRequest
) -> codec.ExpireDelegationTokenResponse:
    """Refuses."""
    return failure(request, context.api_version, why_none(context))


def failure(
    _request: codec.ExpireDelegationTokenRequest, _version: int, code: int
) -> codec.ExpireDelegationTokenResponse:
    """The code and no time."""
    return codec.ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER_MS)
