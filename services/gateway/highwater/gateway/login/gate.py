"""Connections that have not logged in: their requests, their limits, and their end.

Until a client has logged in, this is its session's handler of requests: it lets ApiVersions and the two
SASL requests pass, and closes the connection for any other. After that the session has the usual
handler, so that a login costs its requests nothing. Where logins expire (`lifetime_s`, Kafka's
connections.max.reauth.ms, or with the token of OAUTHBEARER) the gate is the handler again from then on,
until the next login.

Before a login a frame may have 64 KiB, and the login has to be complete in time. A failed one is answered
after a while (connection.failed.authentication.delay.ms), and then the connection is closed.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final, Protocol

from highwater.gateway.core.login_port import Step
from highwater.gateway.core.session_ports import RequestHandler
from highwater.gateway.login.fair_turns import LoginsBusy
from highwater.gateway.login.login import Login, LoginState
from highwater.gateway.login.mechanisms import Mechanisms
from highwater.gateway.login.scram_server import LoginRefused
from highwater.gateway.routing.client import ClientSession
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import USER, Principal
from highwater.model.ids import InstanceId
from highwater.model.scram import OAUTHBEARER
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger

FRAME_BYTES_MAX: Final = 64 * 1024
ANSWER_S: Final = 1.0
"""For the answer to a failed login to reach the client, before the connection is closed."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{0,20}")
"""What may be the name of a mechanism (RFC 4422), also in lower case. What a client sends in its place may be a part
of a token or a password, and is not logged.
"""

_ALLOWED: Final = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
_unpack_key = Struct(">h").unpack_from


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLimits:
    """Seconds: for a login from the connection's begin, of a failed login's delay, that a login is good
    for (0: as long as the connection).
    """

    login_s: float
    failure_delay_s: float
    lifetime_s: float


class Timer(Protocol):
    """What `call_later` returns."""

    def cancel(self) -> None:
        """Calls nothing any more."""


class LoginGate:
    """See the module. One for each gateway, as long as that."""

    def __init__(
        self,
        requests: RequestHandler[ClientSession],
        mechanisms: Mechanisms,
        limits: LoginLimits,
        *,
        call_later: Callable[[float, Callable[[], None]], Timer],
        now_ms: Callable[[], int],
        log: Logger,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        logged_in: Callable[[ClientSession], object] = lambda _session: None,
        login_failed: Callable[[InstanceId], object] = lambda _instance: None,
    ) -> None:
        """`requests` handles those of clients that have logged in, and the SASL requests themselves.

        `logged_in` is called once a session has its user and its usual handler, `login_failed` with the instance
        of each login that fails.
        """
        self.requests = requests
        self.limits = limits
        self.call_later = call_later
        self.sleep = sleep
        self.logged_in = logged_in
        self.login_failed = login_failed
        self.log = log
        self.log_limit = LogLimit(now_ms)
        self.logins = 0
        self.failed = 0
        self.late = 0
        """Connections closed because no login was complete in time."""
        self._mechanisms = mechanisms
        self._now_ms = now_ms

    def admit(self, session: ClientSession, offered: tuple[str, ...]) -> None:
        """Makes a new connection log in, by one of its listener's mechanisms that its instance takes."""
        instance = session.client.instance
        offered = self._mechanisms.offered(offered, instance)
        begin = partial(self._mechanisms.begin, instance=instance)
        may_repeat = self.limits.lifetime_s > 0 or OAUTHBEARER in offered
        login = Login(offered, begin, may_repeat=may_repeat, now_ms=self._now_ms)
        session.client.login = ConnectionLogin(self, session, login)

    # ---- RequestHandler ----

    def produce(self, session: ClientSession, frame: bytearray) -> None:
        """Closes the connection."""
        session.refuse(len(frame), "a Produce without a login")

    def fetch(self, session: ClientSession, frame: bytearray) -> None:
        """Closes the connection."""
        session.refuse(len(frame), "a Fetch without a login")

    def other(self, session: ClientSession, frame: bytearray) -> None:
        """Lets what belongs to a login pass, and closes the connection for the rest."""
        (key,) = _unpack_key(frame)
        if key in _ALLOWED:
            self.requests.other(session, frame)
        else:
            session.refuse(len(frame), f"a request of API key {key} without a login")

    def reply_failed(self, session: ClientSession, error: Exception) -> None:
        """As for any request."""
        self.requests.reply_failed(session, error)


class ConnectionLogin:
    """The `LoginPort` of one connection: what a login means for its session."""

    __slots__ = ("_closed", "_gate", "_lifetime_ms", "_login", "_session", "_timer")

    def __init__(self, gate: LoginGate, session: ClientSession, login: Login) -> None:
        self._gate = gate
        self._session = session
        self._login = login
        self._lifetime_ms = 0
        self._closed = False
        self._timer: Timer
        self._shut()
        self._timer = gate.call_later(gate.limits.login_s, self._too_late)

    @property
    def offered(self) -> tuple[str, ...]:
        """See `LoginPort`."""
        return self._login.offered

    @property
    def mechanism(self) -> str:
        """See `LoginPort`."""
        return self._login.mechanism

    @property
    def expects_token(self) -> bool:
        """See `LoginPort`."""
        return self._login.state is LoginState.EXCHANGING

    @property
    def lifetime_ms(self) -> int:
        """See `LoginPort`."""
        return self._lifetime_ms

    def handshake(self, mechanism: str) -> ErrorCode:
        """See `LoginPort`."""
        code = self._login.handshake(mechanism)
        if self.expects_token:
            self._shut()
        elif self._login.state is LoginState.FAILED:
            self._failed(mechanism, code.name)
            self._close_soon()
        return code

    async def take(self, token: bytes) -> Step:
        """See `LoginPort`."""
        try:
            step = await self._login.take(token)
        except LoginRefused as error:
            self._failed(self.mechanism, str(error))
            if self._closed:
                raise
            if isinstance(error, LoginsBusy):
                # It is not the client's fault: no answer, and it comes again.
                self._session.wire.close("too many logins wait")
                raise
            await self._gate.sleep(self._gate.limits.failure_delay_s)
            self._close_soon()
            raise
        # Passwords are checked on a thread, and the client may go meanwhile.
        if step.user is not None and not self._closed:
            self._open(step.user, step.good_ms)
        return step

    def close(self) -> None:
        """See `LoginPort`."""
        self._closed = True
        self._timer.cancel()

    def _shut(self) -> None:
        """Lets nothing pass but a login."""
        session = self._session
        session.handler = self._gate
        session.frame_bytes_max = FRAME_BYTES_MAX

    def _open(self, user: str, good_ms: int | None) -> None:
        gate, session = self._gate, self._session
        client = session.client
        client.requester = client.requester._replace(principal=Principal(USER, user))
        session.handler = gate.requests
        session.frame_bytes_max = session.shared.frame_bytes_max
        gate.logged_in(session)
        gate.logins += 1
        self._timer.cancel()
        limits = (int(gate.limits.lifetime_s * 1000) or None, good_ms)
        self._lifetime_ms = min((one for one in limits if one is not None), default=0)
        if self._lifetime_ms:
            self._timer = gate.call_later(self._lifetime_ms / 1000, self._shut)

    def _failed(self, mechanism: str, why: str) -> None:
        gate, peer = self._gate, self._session.client.peer
        gate.failed += 1
        gate.login_failed(peer.instance)
        gate.log_limit.write(
            gate.log.warning,
            "login_failed",
            kind=peer.instance,
            instance=peer.instance,
            listener=peer.listener,
            host=peer.host,
            mechanism=mechanism if _NAME.fullmatch(mechanism) else "no name of a mechanism",
            error=why,
        )

    def _close_soon(self) -> None:
        if self._closed:
            return
        self._timer.cancel()
        self._timer = self._gate.call_later(ANSWER_S, self._close_failed)

    def _close_failed(self) -> None:
        if not self._session.closed:
            self._session.wire.close("its login failed")

    def _too_late(self) -> None:
        if not self._session.closed:
            self._gate.late += 1
            self._session.wire.close("no login in time")
