"""SaslHandshake v1: the client chooses a mechanism for its login (KIP-43, KIP-152).

Behaviour
- The answer names the mechanisms of the client's listener. One that is not among them, or another one
  than before when a client logs in again: UNSUPPORTED_SASL_MECHANISM. A handshake out of place:
  ILLEGAL_SASL_STATE. After both the connection is closed, if the client has not logged in.
- On a listener without logins: ILLEGAL_SASL_STATE.

Deviations
- v0, after which tokens come without a request around them, is not served: clients from Kafka 1.0 on
  use v1. Kafka answers a handshake in the middle of a login by closing the connection.
"""

from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


async def handle(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Tells the connection's login."""
    login = context.client.login
    if login is None:
        return failure(request, context.api_version, ErrorCode.ILLEGAL_SASL_STATE)
    code = login.handshake(request.mechanism)
    return SaslHandshakeResponse(error_code=code, mechanisms=list(login.offered))


def failure(_request: object, _version: int, code: int) -> SaslHandshakeResponse:
    """The code."""
    return SaslHandshakeResponse(error_code=code)
