"""Keeps the client quotas of connections those of the image: who has some, and what they are.

The client of a connection is its user and the client id of its last request that was neither Produce nor
Fetch; every client begins with one. Until then the connection has the quotas of an empty client id.
"""

from collections.abc import Iterable
from typing import Final

from highwater.gateway.core.session_ports import RequestHandler
from highwater.gateway.quota.core.client_quota import ClientQuota
from highwater.gateway.quota.core.connection_rates import ConnectionRates
from highwater.gateway.quota.core.precedence import (
    ClientQuotaTable,
    address_limits_of,
    limits_of,
)
from highwater.gateway.quota.core.rates import QuotaRates
from highwater.gateway.quota.limited_requests import LimitedRequests
from highwater.gateway.routing.client import ClientSession
from highwater.model.authorization import ANONYMOUS
from highwater.model.steps import Steps, runs

_STEP_SESSIONS: Final = 200
"""Connections looked at in one step: about a millisecond."""


class ClientQuotas:
    """See the module. Lives as long as the gateway."""

    def __init__(self, rates: QuotaRates) -> None:
        self.rates = rates
        self.connections = ConnectionRates(rates.windows, rates.now_ms)
        self._quotas: ClientQuotaTable = {}
        self._usual: RequestHandler[ClientSession]
        self._limited: LimitedRequests

    def handle_by(self, usual: RequestHandler[ClientSession], limited: LimitedRequests) -> None:
        """Names the handlers of sessions without quotas and with some; called before all others."""
        self._usual = usual
        self._limited = limited

    def identify(self, session: ClientSession, client_id: str) -> None:
        """Takes the client id of a request."""
        client = session.client
        if client.client_id != client_id:
            client.client_id = client_id
            self.settle(session)

    def settle(self, session: ClientSession) -> bool:
        """Gives a session the quotas of its client; True if it had others before.

        Called for new connections, after logins, and for all if the quotas have changed. A client that has yet
        to log in has none: it may call itself what it likes, and would use up what others may.
        """
        if not self._quotas and session.quota is None:
            return False
        client = session.client
        user = client.requester.principal.name
        logs_in = client.login is not None and user == ANONYMOUS.name
        limits = (
            None if logs_in else limits_of(self._quotas, client.instance, user, client.client_id)
        )
        before = session.quota
        changed = (None if before is None else before.limits) != limits
        if changed:
            session.quota = None if limits is None else ClientQuota(limits, self.rates)
        # A session whose client has to log in has another handler, and is settled after the login.
        if session.handler is self._usual or session.handler is self._limited:
            session.handler = self._usual if limits is None else self._limited
        if not changed:
            return False
        # They know how much a Fetch may return.
        session.fetch_shape = None
        if client.fetch_session is not None:
            client.fetch_session.empty = None
        return before is not None

    def following(
        self, quotas: ClientQuotaTable, connections: Iterable[ClientSession]
    ) -> Steps[None]:
        """Takes the quotas of a new image, in steps. What was measured stays.

        Clients that were throttled by a quota which has changed may go on at once.
        """
        if quotas is self._quotas:
            return
        self._quotas = quotas
        self.connections.limits = yield from address_limits_of(quotas)
        for some in runs(list(connections), _STEP_SESSIONS):
            for session in some:
                if not session.closed and self.settle(session):
                    session.wire.unmute_now()
            yield
