"""DescribeDelegationToken v1-3: refused, since there are no delegation tokens (KIP-48).

Behaviour
- DELEGATION_TOKEN_AUTH_DISABLED, as in a cluster of Kafka's where tokens are disabled;
  DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for clients that have no login and no certificate.

Version notes
- v2: flexible. v3: who asked for a token, beside its owner (KIP-373).
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.delegation_tokens import why_none
from highwater.kafka.messages import describe_delegation_token as codec


async def handle(
    context: RequestContext, request: codec.DescribeDelegationTokenRequest
) -> codec.DescribeDelegationTokenResponse:
    """Refuses."""
    return failure(request, context.api_version, why_none(context))


def failure(
    _request: codec.DescribeDelegationTokenRequest, _version: int, code: int
) -> codec.DescribeDelegationTokenResponse:
    """The code and no tokens."""
    return codec.DescribeDelegationTokenResponse(error_code=code)
