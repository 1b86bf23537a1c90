"""How far one connection's login is, without I/O (Kafka: `SaslServerAuthenticator`; KIP-152, KIP-368).

    state       what happens                                      next
    new         handshake, the mechanism is offered               exchanging
    new         handshake, it is not                              failed
    exchanging  a token, after which the mechanism goes on        exchanging
    exchanging  a token that says who the client is               in
    exchanging  a token that is refused, or a handshake           failed
    in          handshake, same mechanism: a login again          exchanging
    in          handshake, another mechanism                      failed
    in          a token of another user, at the end of that       failed
    any other                                                     as it was: ILLEGAL_SASL_STATE

A client may log in again where logins expire, once a second at most.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from highwater.gateway.core.login_port import Step
from highwater.gateway.login.mechanisms import Exchange
from highwater.gateway.login.scram_server import LoginRefused
from highwater.kafka.error_codes import ErrorCode

AGAIN_MS_MIN: Final = 1_000
"""Between two logins of a connection (`MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS`)."""


class LoginState(Enum):
    """See the module."""

    NEW = auto()
    EXCHANGING = auto()
    IN = auto()
    FAILED = auto()


class Login:
    """See the module. Lives as long as its connection."""

    def __init__(
        self,
        offered: tuple[str, ...],
        begin: Callable[[str], Exchange],
        *,
        may_repeat: bool,
        now_ms: Callable[[], int],
    ) -> None:
        """`offered` are the mechanisms' names; `begin` begins a login by one of them."""
        self.offered = offered
        self.state = LoginState.NEW
        self.user = ""
        """Who the client is, after the first login."""
        self.mechanism = ""
        self._begin = begin
        self._may_repeat = may_repeat
        self._now_ms = now_ms
        self._in_since_ms = 0
        self._exchange: Exchange

    def handshake(self, mechanism: str) -> ErrorCode:
        """Takes a SaslHandshake; the code for its answer. See the state for what follows."""
        if self.state is LoginState.IN:
            since_ms = self._now_ms() - self._in_since_ms
            if not self._may_repeat or since_ms < AGAIN_MS_MIN:
                return ErrorCode.ILLEGAL_SASL_STATE
            known = mechanism == self.mechanism
        elif self.state is LoginState.NEW:
            known = mechanism in self.offered
        else:
            self.state = LoginState.FAILED
            return ErrorCode.ILLEGAL_SASL_STATE
        if not known:
            self.state = LoginState.FAILED
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self.state = LoginState.EXCHANGING
        self.mechanism = mechanism
        self._exchange = self._begin(mechanism)
        return ErrorCode.NONE

    async def take(self, token: bytes) -> Step:
        """Takes a token while `state` is EXCHANGING. Raises LoginRefused."""
        assert self.state is LoginState.EXCHANGING
        try:
            step = await self._exchange.take(token)
            if step.user is not None and self.user not in {"", step.user}:
                raise LoginRefused("it logs in again as another user")
        except LoginRefused:
            self.state = LoginState.FAILED
            raise
        if step.user is not None:
            self.user = step.user
            self.state = LoginState.IN
            self._in_since_ms = self._now_ms()
        return step
