"""MetadataService: the image and its deltas to every watcher, each converted once."""

# ruff: noqa: N802 - gRPC's method names.

from collections.abc import AsyncIterator, Callable
from typing import Final

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.api.controller.v1 import controller_service_pb2 as service_pb
from highwater.controller.active.active import ActiveController
from highwater.controller.errors import NotActiveError
from highwater.controller.rpc.errors import streaming
from highwater.controller.rpc.seen import check_seen
from highwater.metadata.convert import delta_to_pb, snapshot_to_pb
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import GatewayId, NodeId

_CONVERTED_MAX: Final = 64
"""Watchers stand close to one another; those that lag convert again."""


class MetadataServicer:
    """`current()` and `active_address()` as in ControllerServicer."""

    def __init__(
        self, current: Callable[[], ActiveController | None], active_address: Callable[[], str]
    ) -> None:
        self._current = current
        self.active_address = active_address
        self._converted: dict[tuple[int, bool], tuple[object, pb.ClusterChange]] = {}

    @streaming
    async def WatchCluster(
        self, request: service_pb.WatchClusterRequest
    ) -> AsyncIterator[pb.ClusterChange]:
        """See the proto."""
        controller = self._current()
        if controller is None:
            raise NotActiveError(self.active_address())
        await check_seen(controller, request.seen)
        members = controller.members
        node, gateway = NodeId(request.node_id), GatewayId(request.gateway_id)
        counted = members.stream_opened(node, request.node_epoch, gateway)
        try:
            async for change in controller.changes(request.from_revision, request.cluster_id):
                yield self._convert(change, controller)
        finally:
            if counted:
                members.stream_closed(node, request.node_epoch, gateway)

    def _convert(
        self, change: ClusterImage | ClusterDelta, controller: ActiveController
    ) -> pb.ClusterChange:
        key = (change.revision, isinstance(change, ClusterImage))
        known = self._converted.get(key)
        if known is not None and known[0] is change:
            return known[1]
        if isinstance(change, ClusterImage):
            message = snapshot_to_pb(change)
        else:
            # Configs travel whole, so a lagging watcher may see newer ones early, never older.
            image = controller.image
            message = delta_to_pb(change, image.cluster_configs, image.node_configs)
        self._converted[key] = (change, message)
        if len(self._converted) > _CONVERTED_MAX:
            self._converted.pop(next(iter(self._converted)))
        return message
