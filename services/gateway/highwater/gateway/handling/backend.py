"""The gateway as handlers see it: routes, links, the controller and the image."""

from highwater.gateway.config import GatewayConfig
from highwater.gateway.handling.context import HandlerSettings
from highwater.gateway.handling.shared_state import SharedState
from highwater.gateway.routing.node_links import NodeLinks
from highwater.gateway.routing.table import RoutingTable
from highwater.hop.ports import NodeLink
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.watch import ClusterWatch
from highwater.model.authorization import Authorizer
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NodeId
from highwater.model.time import Clock
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger


class GatewayBackend:
    """The `Backend` of one gateway (see `handling.context`)."""

    def __init__(
        self,
        *,
        routing: RoutingTable,
        links: NodeLinks,
        controller: ControllerClient,
        watch: ClusterWatch,
        settings: HandlerSettings,
        authorizer: Authorizer,
        clock: Clock,
        log: Logger,
    ) -> None:
        self.routing = routing
        self.controller = controller
        self.settings = settings
        self.authorizer = authorizer
        self.clock = clock
        self.shared = SharedState()
        self.log = log
        self.log_limit = LogLimit(clock.monotonic_ms)
        self._links = links
        self._watch = watch

    @property
    def image(self) -> ClusterImage:
        """The newest image; requests are accepted only after the first."""
        image = self.routing.image
        assert image is not None
        return image

    def link_to(self, node: NodeId) -> NodeLink | None:
        """The link to a live node, or None."""
        return self._links.link_to(node)

    async def wait_for_revision(self, revision: int, timeout_s: float) -> bool:
        """Waits until `image` is at least at `revision`; False if it took too long."""
        try:
            await self._watch.wait_for_revision(revision, timeout_s)
        except TimeoutError:
            return False
        return True


def handler_settings(config: GatewayConfig) -> HandlerSettings:
    """What of the gateway's settings handlers need."""
    return HandlerSettings(
        auto_create_topics=config.auto_create_topics,
        partitions_default=config.default_partitions,
        replication_factor_default=config.default_replication_factor,
        group_metadata_partitions=config.group_metadata_partitions,
        group_metadata_replication_factor=config.group_metadata_replication_factor,
        transaction_state_partitions=config.transaction_state_partitions,
        transaction_state_replication_factor=config.transaction_state_replication_factor,
        transaction_state_min_isr=config.transaction_state_min_isr,
        transaction_state_segment_bytes=config.transaction_state_segment_bytes,
        request_bytes_max=config.request_bytes_max,
        idle_ms_max=int(config.idle_s_max * 1000),
        old_message_formats=config.old_message_formats,
        has_acls=config.authorizer == "acl",
    )
