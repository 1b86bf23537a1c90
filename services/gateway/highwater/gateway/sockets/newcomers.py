"""What becomes of a socket that a listener has accepted, until it is a connection.

    step          when
    preface       with proxy_protocol: the header that names the client (`preface`)
    arrival       with limits of connections: it waits, or is closed (`arrivals`)
    handshake     with TLS (`tls_stream`)
    connection    always; it may have to log in

Each step ends by giving the socket to the next one.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, cast

from highwater.gateway.core.session_ports import RequestHandler
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.login.gate import LoginGate
from highwater.gateway.login.principal_rules import PrincipalRules, distinguished_name
from highwater.gateway.quota.client_quotas import ClientQuotas
from highwater.gateway.quota.core.connection_limits import ConnectionTurns, connection_limits
from highwater.gateway.routing.client import ClientInfo, ClientSession, Peer
from highwater.gateway.routing.table import RoutingTable
from highwater.gateway.sockets.arrivals import Arrival, Arrivals
from highwater.gateway.sockets.connection import Connection
from highwater.gateway.sockets.crowd import Crowd
from highwater.gateway.sockets.door import Door
from highwater.gateway.sockets.outbox import SenderPool
from highwater.gateway.sockets.preface import Preface
from highwater.gateway.sockets.tls import TlsContext
from highwater.gateway.sockets.tls_shared import SharedTls
from highwater.gateway.sockets.tls_stream import TlsStream
from highwater.model.authorization import ANONYMOUS, USER, Principal
from highwater.model.cluster import ClusterImage
from highwater.model.dynamic_config import broker_values
from highwater.model.ids import InstanceId, NodeId
from highwater.model.networks import Networks
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger
from highwater.runtime.proxy_protocol import ProxiedClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Where the ports of one of the gateway's listeners are opened, and what is asked of clients there."""

    host: str
    proxy_protocol: bool = False
    """Every connection begins with a PROXY protocol header (see `preface`)."""
    proxies: Networks | None = None
    """From where such connections may come; None: from anywhere."""
    sasl_mechanisms: tuple[str, ...] = ()
    """Clients have to log in by one of them; none if they need not."""
    tls: TlsContext | None = None
    """Every connection begins with a handshake of TLS, behind the header if there is one."""
    principal_rules: PrincipalRules = field(default_factory=lambda: PrincipalRules(()))
    """What a client with a certificate is called."""


class Way(NamedTuple):
    """By which port somebody has come."""

    listener: str
    instance: InstanceId
    node: NodeId | None
    address: ListenAddress
    door: Door


class Newcomers:
    """See the module. Lives as long as the listener."""

    def __init__(
        self,
        *,
        shared: SharedInput,
        handler: RequestHandler[ClientSession],
        gate: LoginGate,
        quotas: ClientQuotas,
        routing: RoutingTable,
        pool: SenderPool,
        tls: SharedTls,
        log: Logger,
        now_ms: Callable[[], int],
        connections_max: int,
        on_shortage: Callable[[OSError], None],
    ) -> None:
        """`on_shortage` is called if no descriptor was free."""
        self._shared = shared
        self._handler = handler
        self._gate = gate
        self._quotas = quotas
        self._routing = routing
        self._pool = pool
        self._tls = tls
        self._log = log
        self._connections_max = connections_max
        self._on_shortage = on_shortage
        self._header_lines = LogLimit(now_ms)
        self._handshake_lines = LogLimit(now_ms)
        self.connections: Crowd[Connection] = Crowd(lambda one: one.client)
        self.prefaces: set[Preface] = set()
        """Connections whose PROXY protocol header has not arrived yet."""
        self.handshakes: Crowd[TlsStream] = Crowd(lambda one: one.client)
        """Connections whose handshake of TLS is not complete."""
        self.refused = 0
        """How many were too many for the gateway, or had no header."""
        self.failed_handshakes = 0
        self.turns = ConnectionTurns(quotas.rates.windows, self)
        self._configs: tuple[Mapping[str, str], Mapping[str, str]] = {}, {}
        self.arrivals = Arrivals(
            quotas.connections,
            self.turns,
            now_ms=now_ms,
            call_later=lambda s, call: asyncio.get_running_loop().call_later(s, call),
            log=log,
        )

    def follow(self, image: ClusterImage, node_id: NodeId) -> None:
        """Takes the limits of a new image: those for all brokers, and those of the node in this process."""
        configs = image.cluster_configs, image.node_configs.get(node_id, {})
        if configs != self._configs:
            self._configs = configs
            self.turns.limits = connection_limits(broker_values(image, node_id, {}))

    # ---- connection_limits.Present: all who have come in ----

    def __len__(self) -> int:
        """All of them."""
        return len(self.connections) + len(self.handshakes)

    def by(self, listener: str) -> int:
        """Those who came by that listener."""
        return self.connections.by(listener) + self.handshakes.by(listener)

    def of(self, host: str) -> int:
        """Those of that address."""
        return self.connections.of(host) + self.handshakes.of(host)

    # ---- from accept to a connection ----

    def accept(self, way: Way) -> asyncio.BaseProtocol:
        """The protocol of a socket that was accepted."""
        accepted_ms = self._shared.standstill.now_ms()
        if not way.address.proxy_protocol:
            return self._arrived(way, accepted_ms, None)
        if self._is_full:
            self.refused += 1
            return Refusal()
        return Preface(
            proxies=way.address.proxies,
            accept=partial(self._arrived, way, accepted_ms),
            prefaces=self.prefaces,
            on_refused=self._no_header,
            loop=asyncio.get_running_loop(),
        )

    def close(self) -> None:
        """Closes what is no connection yet."""
        self.arrivals.close()
        for preface in list(self.prefaces):
            preface.close()
        for stream in list(self.handshakes):
            stream.abort()

    @property
    def _is_full(self) -> bool:
        begun = len(self.prefaces) + len(self.arrivals)
        return len(self) + begun >= self._connections_max

    def _arrived(
        self, way: Way, accepted_ms: int, client: ProxiedClient | None
    ) -> asyncio.BaseProtocol:
        """`client` is whom a header has named; None without a header, or if it names nobody."""
        if self._is_full:
            self.refused += 1
            return Refusal()
        # The health checks of a balancer do not wait behind clients.
        if self.arrivals.limited and not self._is_check(way, client):
            return Arrival(
                self.arrivals,
                partial(self._begin, way, accepted_ms),
                listener=way.listener,
                instance=way.instance,
                client=client,
                lets_in=way.door.lets_in,
            )
        return self._begin(way, accepted_ms, client)

    @staticmethod
    def _is_check(way: Way, client: ProxiedClient | None) -> bool:
        """True for the connection of a balancer itself: its header names nobody."""
        return way.address.proxy_protocol and client is None

    def _begin(
        self, way: Way, accepted_ms: int, client: ProxiedClient | None
    ) -> asyncio.BufferedProtocol:
        """The protocol of a client that has come in."""
        loop = asyncio.get_running_loop()
        host, port = client or ("", 0)
        peer = Peer(
            instance=way.instance, node=way.node, host=host, port=port, listener=way.listener
        )
        topics = self._routing.topics_of(way.instance)
        connection = Connection(
            shared=self._shared,
            handler=self._handler,
            client=ClientInfo(peer, topics, self._routing.revision, accepted_ms=accepted_ms),
            loop=loop,
            pool=self._pool,
            door=way.door,
            on_shortage=self._on_shortage,
            on_made=partial(self._made, way),
        )
        if way.address.tls is None:
            return connection
        return TlsStream(
            connection,
            way.address.tls.context,
            shared=self._tls,
            loop=loop,
            pool=self._pool,
            lets_in=way.door.lets_in,
            on_shortage=self._on_shortage,
            begun=(self.handshakes, way.door.handshakes),
            on_failed=_nothing
            if self._is_check(way, client)
            else partial(self._handshake_failed, way),
        )

    def _made(self, way: Way, connection: Connection, transport: asyncio.BaseTransport) -> None:
        if way.address.sasl_mechanisms:
            self._gate.admit(connection, way.address.sasl_mechanisms)
        elif way.address.tls is not None and way.door.takes_certificates:
            self._name(connection, transport, way.address.principal_rules)
        self._quotas.settle(connection)

    def _name(
        self, connection: Connection, transport: asyncio.BaseTransport, rules: PrincipalRules
    ) -> None:
        """Names a client by the certificate that it has shown, if it has."""
        certificate = transport.get_extra_info("peercert")
        if not certificate:
            return
        name = rules.name_of(distinguished_name(certificate["subject"]))
        if name is None:
            connection.close("no rule gives its certificate a name")
            return
        if name == ANONYMOUS.name:
            connection.close("its name is that of clients without a certificate or login")
            return
        client = connection.client
        client.requester = client.requester._replace(principal=Principal(USER, name))

    # ---- what goes wrong ----

    def _handshake_failed(self, way: Way, host: str, error: str) -> None:
        """A client broke it off, or has no TLS."""
        self.failed_handshakes += 1
        self._handshake_lines.write(
            self._log.info,
            "handshake_failed",
            kind=way.instance,
            instance=way.instance,
            listener=way.listener,
            host=host,
            error=error,
        )

    def _no_header(self, reason: str) -> None:
        """A client bypassed the balancer, or the balancer sends no headers."""
        self.refused += 1
        self._header_lines.write(self._log.warning, "proxy_header_refused", error=reason)


def _nothing(_host: str, _error: str) -> None:
    """A balancer's check of a listener with TLS ends in the middle of a handshake."""


class Refusal(asyncio.Protocol):
    """A connection above the limit: closed before a byte is read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Closes."""
        cast("asyncio.Transport", transport).abort()
