"""The client of a connection, and the topics that it sees."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from highwater.gateway.core.fetch_session import FetchSession
from highwater.gateway.core.login_port import LoginPort
from highwater.gateway.core.session import Session
from highwater.gateway.routing.brokers import Entrance
from highwater.gateway.routing.table import InstanceTopics, TopicRoutes
from highwater.hop.ports import NodeLink
from highwater.model.authorization import ANONYMOUS, Principal, Requester
from highwater.model.ids import InstanceId, NodeId
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.model.networks import canonical_address


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The client's instance and address, and what the port stands for that it came by."""

    instance: InstanceId
    node: NodeId | None
    """The node that this port stands for; None on a pure bootstrap port."""
    host: str
    """The client's address without the port."""
    port: int
    listener: str = DEFAULT_LISTENER
    """The listener that this port belongs to: the client gets no address of another one."""

    @property
    def entrance(self) -> Entrance:
        """What the addresses that the client is told belong to."""
        return Entrance(self.listener, self.instance)


class ClientInfo:
    """A session's peer; `topics` are those of its instance, kept current."""

    __slots__ = (
        "accepted_ms",
        "client_id",
        "fetch_session",
        "instance",
        "login",
        "peer",
        "requester",
        "told_revision",
        "topics",
        "watched",
    )

    def __init__(
        self,
        peer: Peer,
        topics: InstanceTopics,
        told_revision: int = -1,
        *,
        accepted_ms: int = 0,
    ) -> None:
        self.peer = peer
        self.accepted_ms = accepted_ms
        """When its connection was accepted (`Standstill.now_ms`)."""
        self.watched = False
        """Its connection closes when it cannot be reached (`Wire.close_when_silent`)."""
        self.requester = Requester(ANONYMOUS, peer.instance, canonical_address(peer.host))
        self.client_id = ""
        """That of the last request that was neither Produce nor Fetch; its quotas apply."""
        self.login: LoginPort | None = None
        """None on a listener without logins."""
        self.told_revision = told_revision
        """The image that this client's brokers are of: at its last Metadata, or as it connected."""
        self.instance: InstanceId = peer.instance
        self.topics = topics
        self.fetch_session: FetchSession[NodeLink] | None = None
        """The fetch session of the connection's last Fetch, if it was in one."""

    @property
    def identity(self) -> tuple[Principal, InstanceId]:
        """Who the client has proven to be, and where: what its fetch sessions belong to."""
        return self.requester.principal, self.instance

    def near(self, rack: str) -> tuple[NodeId, ...]:
        """The nodes that this client sees in its rack (KIP-392); none if its port stands for no node,
        so that it could not choose one.
        """
        peer = self.peer
        if not rack or peer.node is None:
            return ()
        return self.topics.near.of(peer.listener, rack)

    def came_from(self, host: str, port: int) -> None:
        """Takes the client's address, once its socket is known."""
        self.peer = replace(self.peer, host=host, port=port)
        self.requester = self.requester._replace(host=canonical_address(host))


ClientSession: TypeAlias = Session[ClientInfo, TopicRoutes]
"""A session as the paths and handlers of requests know it."""
