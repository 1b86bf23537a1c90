"""The context that a handler gets with the decoded request."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from highwater.gateway.handling.shared_state import SharedState
from highwater.gateway.quota.core.request_quota import NO_QUOTA, RequestQuota
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.ports import NodeLink
from highwater.metadata.controller_client import ControllerClient
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Authorizer, Resource, ResourceType
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NodeId
from highwater.model.time import Clock
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSettings:
    """The gateway's settings that handlers need; plain values (see GatewayConfig)."""

    auto_create_topics: bool = True
    partitions_default: int = 1
    """num.partitions"""
    replication_factor_default: int = 1
    request_timeout_ms: int = 30_000
    group_metadata_partitions: int = 50
    """offsets.topic.num.partitions"""
    group_metadata_replication_factor: int = -1
    """offsets.topic.replication.factor; -1 leaves it to the controller."""
    transaction_state_partitions: int = 50
    """transaction.state.log.num.partitions"""
    transaction_state_replication_factor: int = -1
    """transaction.state.log.replication.factor; -1 leaves it to the controller."""
    transaction_state_min_isr: int = 2
    """transaction.state.log.min.isr"""
    transaction_state_segment_bytes: int = 100 * 1024 * 1024
    """transaction.state.log.segment.bytes"""
    request_bytes_max: int = 100 << 20
    """socket.request.max.bytes"""
    idle_ms_max: int = 600_000
    """connections.max.idle.ms"""
    old_message_formats: bool = False
    has_acls: bool = False
    """Clients are allowed what the cluster's ACLs say (`authorizer`)."""


class Backend(Protocol):
    """The gateway and all behind it, as handlers see them. One per gateway."""

    routing: RoutingTable
    controller: ControllerClient
    settings: HandlerSettings
    authorizer: Authorizer
    clock: Clock
    shared: SharedState
    """`SharedState()`, made with the gateway."""
    log: Logger
    log_limit: LogLimit
    """Limits log lines that a client can cause with every request."""

    @property
    def image(self) -> ClusterImage:
        """The newest image."""
        ...

    def link_to(self, node: NodeId) -> NodeLink | None:
        """The link to a live node, or None."""
        ...

    async def wait_for_revision(self, revision: int, timeout_s: float) -> bool:
        """Waits until `image` is at least at `revision`; False if it took too long."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """The client, version and gateway of one request."""

    backend: Backend
    client: ClientInfo
    api_key: int
    api_version: int
    client_id: str
    on_disconnect: Callable[[Callable[[], None]], None]
    """Registers a cleanup for clients that disconnect before the reply."""
    quota: RequestQuota = NO_QUOTA

    @property
    def peer(self) -> Peer:
        """The client's address and the port that it connected to."""
        return self.client.peer

    def allows(self, operation: AclOperation, resource: Resource) -> bool:
        """True if the client may do that to the resource."""
        return self.backend.authorizer.allows(self.client.requester, operation, resource)

    def allows_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """True if the client may do that to some resource of the type."""
        return self.backend.authorizer.allows_any(self.client.requester, operation, resource_type)

    def warn(self, event: str, *, kind: str = "", **values: object) -> None:
        """Logs an event of this request, within the limit for lines that clients cause."""
        backend = self.backend
        backend.log_limit.write(
            backend.log.warning, event, kind=kind, client_id=self.client_id, **values
        )
