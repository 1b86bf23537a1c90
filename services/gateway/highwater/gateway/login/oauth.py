"""OAUTHBEARER: a login by a JSON Web Token of an issuer whose keys are known (KIP-255, KIP-768)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from highwater.gateway.core.login_port import Step
from highwater.gateway.login.key_set import KeySet
from highwater.gateway.login.mechanisms import OnThread
from highwater.gateway.login.oauth_message import ACKNOWLEDGEMENT, REFUSAL, parse
from highwater.gateway.login.scram_server import LoginRefused
from highwater.gateway.login.token_rules import TokenRules, check_token, key_id

TOKEN_BYTES_MAX: Final = 16 * 1024


class TokenLogins:
    """What all logins by token share. Lives as long as the gateway."""

    def __init__(self, keys: KeySet, rules: TokenRules, *, now_s: Callable[[], float]) -> None:
        """`now_s` is the wall clock, in seconds since the epoch."""
        self._keys = keys
        self._rules = rules
        self._now_s = now_s

    async def check(
        self, message: bytes, audiences: tuple[str, ...] | None, on_thread: OnThread
    ) -> Step:
        """Whom the client's first message names, and for how long. Raises LoginRefused.

        The token has to be for one of the audiences; for none if there are none. None: no token is good.
        """
        if audiences is None:
            raise LoginRefused("no token opens the ports of this instance")
        if len(message) > TOKEN_BYTES_MAX:
            raise LoginRefused(f"a token of more than {TOKEN_BYTES_MAX} bytes")
        sent = parse(message)
        keys = await self._keys.find(key_id(sent.token))
        now_s = self._now_s()
        rules = replace(self._rules, audiences=audiences)
        owner = await on_thread(partial(check_token, sent.token, keys, rules, now_s))
        if sent.acts_as not in {"", owner.user}:
            raise LoginRefused("it asks to act as another user")
        # A client whose clock is behind may still come with a token that has just expired.
        good_ms = max(1, int((owner.expires_s - now_s) * 1000))
        return Step(b"", owner.user, good_ms)


class OAuthExchange:
    """One login. A refused client hears so in JSON, acknowledges that, and is then refused (RFC 7628, 3.2.3)."""

    def __init__(
        self,
        logins: TokenLogins,
        audiences: Callable[[], tuple[str, ...] | None],
        on_thread: OnThread,
    ) -> None:
        """`audiences`: for whom tokens have to be now (see `TokenLogins.check`)."""
        self._on_thread = on_thread
        self._logins = logins
        self._audiences = audiences
        self._why_not: LoginRefused | None = None

    async def take(self, token: bytes) -> Step:
        """See `Exchange`."""
        if self._why_not is not None:
            if token != ACKNOWLEDGEMENT:
                raise LoginRefused(f"no acknowledgement of: {self._why_not}")
            raise self._why_not
        try:
            return await self._logins.check(token, self._audiences(), self._on_thread)
        except LoginRefused as error:
            self._why_not = error
            return Step(REFUSAL)
