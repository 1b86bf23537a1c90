"""Why there are no delegation tokens (KIP-48): as a cluster of Kafka's without delegation.token.secret.key."""

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import ANONYMOUS

NEVER_MS = -1
"""In the place of times, where there is no token (`DelegationTokenManager.ErrorTimestamp`)."""


def why_none(context: RequestContext) -> ErrorCode:
    """The code for every request about tokens: clients without a login or certificate may not even ask."""
    if context.client.requester.principal == ANONYMOUS:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
