"""The door of an instance at a gateway: who may connect by the instance's ports, and who is inside.

    state     what happens                                     next
    open      an image without the instance, or it is deleted  shut: nobody comes in
    shut      an image with it                                 open

Who is inside when the allow-list changes, and may not come in any more, is put out at once, and so is who was
named by a certificate when the instance takes none any more. A lower limit of connections puts nobody out.
"""

from collections.abc import Callable
from enum import Enum

from highwater.gateway.sockets.connection import Connection
from highwater.gateway.sockets.tls_stream import TlsStream
from highwater.model.authorization import ANONYMOUS
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState
from highwater.model.networks import Networks


class Reason(Enum):
    """Why somebody is not let in."""

    NETWORK = "its address is not allowed"
    LIMIT = "the instance has as many connections as it may have"
    SHUT = "the instance is not here any more"


class Door:
    """See the module. Made when the gateway first hears of the instance; ends some time after it."""

    __slots__ = (
        "_connections_max",
        "_everybody",
        "_networks",
        "_on_bad_list",
        "_on_refused",
        "_state",
        "connections",
        "failed_logins",
        "handshakes",
        "instance",
        "is_shut",
        "refused",
        "takes_certificates",
    )

    def __init__(
        self,
        instance: InstanceId,
        everybody: set[Connection],
        *,
        on_refused: Callable[["Door", Reason, str], None],
        on_bad_list: Callable[["Door", str], None],
    ) -> None:
        """`everybody` are the connections of the whole gateway.

        `on_refused` gets the reason and the client's address; `on_bad_list` what is wrong with an
        allow-list, which then lets nobody in.
        """
        self.instance = instance
        self.takes_certificates = instance == DEFAULT_INSTANCE
        """Whether clients are called by their certificates."""
        self.connections: set[Connection] = set()
        self.handshakes: set[TlsStream] = set()
        """Those of TLS that are not complete: not inside, but each keeps a place."""
        self.is_shut = False
        self.refused = dict.fromkeys(Reason, 0)
        self.failed_logins = 0
        self._everybody = everybody
        self._on_refused = on_refused
        self._on_bad_list = on_bad_list
        self._networks: Networks | None = None
        """None: everybody may come in."""
        self._connections_max: int | None = None
        self._state: InstanceState | None = None

    # ---- connection.Door ----

    def lets_in(self, host: str) -> bool:
        """True if another client may come in from there. Counts and tells of a refusal."""
        if self.is_shut:
            reason = Reason.SHUT
        elif self._networks is not None and not self._networks.holds(host):
            reason = Reason.NETWORK
        elif (
            self._connections_max is not None
            and len(self.connections) + len(self.handshakes) >= self._connections_max
        ):
            reason = Reason.LIMIT
        else:
            return True
        self.refused[reason] += 1
        self._on_refused(self, reason, host)
        return False

    def add(self, connection: Connection) -> None:
        """It is inside."""
        self.connections.add(connection)
        self._everybody.add(connection)

    def discard(self, connection: Connection) -> None:
        """It has gone, or has never been inside."""
        self.connections.discard(connection)
        self._everybody.discard(connection)

    # ---- the image ----

    def follow(self, state: InstanceState | None) -> None:
        """Applies what the image has of the instance; None for no limits."""
        if state is self._state:
            return
        before, self._state = self._state, state
        self._connections_max = None if state is None else state.connections_max
        took = self.takes_certificates
        certificates = state is not None and state.certificates
        self.takes_certificates = certificates or self.instance == DEFAULT_INSTANCE
        if took and not self.takes_certificates:
            self._put_out_by_certificate()
        allowed = None if state is None else state.allowed_networks
        if allowed == (None if before is None else before.allowed_networks):
            return
        self._networks = None if allowed is None else self._parsed(allowed)
        if self._networks is None:
            return
        for connection in list(self.connections):
            if not self._networks.holds(connection.client.peer.host):
                connection.close("its address is not allowed any more")

    def _put_out_by_certificate(self) -> None:
        """Closes connections of users that their certificates alone have named."""
        for connection in list(self.connections):
            client = connection.client
            if client.login is None and client.requester.principal != ANONYMOUS:
                connection.close("its instance takes no certificates any more")

    def _parsed(self, allowed: tuple[str, ...]) -> Networks:
        try:
            return Networks(allowed)
        except (
            ValueError
        ) as error:  # The controller has checked the list; another version of it may not.
            self._on_bad_list(self, str(error))
            return Networks(())
