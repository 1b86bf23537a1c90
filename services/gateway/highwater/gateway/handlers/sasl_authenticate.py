"""SaslAuthenticate v0-2: one token of a login, and the mechanism's answer (KIP-152, KIP-368).

Behaviour
- A login that fails: SASL_AUTHENTICATION_FAILED, after a while, and then the connection is closed.
- Without a handshake before it, or on a listener without logins: ILLEGAL_SASL_STATE.

Version notes
- v1: how long the login is good for (KIP-368), in the answer that completes it. v2: flexible.
"""

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.login.scram_server import LoginRefused
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


async def handle(
    context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Gives the token to the connection's login."""
    login = context.client.login
    if login is None or not login.expects_token:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received without a SaslHandshake before it",
        )
    try:
        step = await login.take(bytes(request.auth_bytes))
    except LoginRefused:
        # Kafka's words. Why it failed is for the log: not for somebody who tries out names.
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message="Authentication failed during authentication due to invalid credentials "
            f"with SASL mechanism {login.mechanism}",
        )
    lifetime_ms = 0 if step.user is None else login.lifetime_ms
    return SaslAuthenticateResponse(auth_bytes=step.token, session_lifetime_ms=lifetime_ms)


def failure(_request: object, _version: int, code: int) -> SaslAuthenticateResponse:
    """The code with Kafka's message."""
    return SaslAuthenticateResponse(error_code=code, error_message=ErrorCode(code).message)
