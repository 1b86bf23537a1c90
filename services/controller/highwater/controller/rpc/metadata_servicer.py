"""MetadataService: sends the image and its deltas to every watcher, and converts each once."""

# ruff: noqa: N802 - gRPC's method names.

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.api.controller.v1 import controller_service_pb2 as service_pb
from highwater.controller.active.active import ActiveController
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.rpc.errors import streaming
from highwater.controller.rpc.seen import check_seen
from highwater.metadata.convert import delta_to_pb_steps, snapshot_to_pb_steps
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import NO_NODE, GatewayId, NodeId
from highwater.model.steps import Steps
from highwater.runtime.slices import Slices

_CONVERTED_MAX: Final = 64
"""Watchers are close to one another; for those that lag, the conversion is repeated."""


class MetadataServicer:
    """`current()` and `active_address()` as in ControllerServicer."""

    def __init__(
        self,
        current: Callable[[], ActiveController | None],
        active_address: Callable[[], str],
        slices: Slices,
    ) -> None:
        self._current = current
        self.active_address = active_address
        self._slices = slices
        self._converted: dict[tuple[int, bool], tuple[object, _Conversion]] = {}

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
        node = NodeId(request.node_id) if request.HasField("node_id") else NO_NODE
        gateway = GatewayId(request.gateway_id)
        counted = members.stream_opened(node, request.node_epoch, gateway)
        try:
            async for change in controller.changes(request.from_revision, request.cluster_id):
                yield await self._convert(change, controller)
        finally:
            if counted:
                members.stream_closed(node, request.node_epoch, gateway)

    async def _convert(
        self, change: ClusterImage | ClusterDelta, controller: ActiveController
    ) -> pb.ClusterChange:
        """The message of a change. Watchers share a conversion that is running."""
        key = (change.revision, isinstance(change, ClusterImage))
        known = self._converted.get(key)
        if known is None or known[0] is not change:
            if isinstance(change, ClusterImage):
                steps = snapshot_to_pb_steps(change)
            else:
                # Configs are sent whole: a lagging watcher may get newer ones early, never older.
                image = controller.image
                steps = delta_to_pb_steps(change, image.cluster_configs, image.node_configs)
            known = self._converted[key] = (change, _Conversion(steps))
            if len(self._converted) > _CONVERTED_MAX:
                self._converted.pop(next(iter(self._converted)))
        return await known[1].message(self._slices)


class _Conversion:
    """One message, made by one watcher at a time: if that one is cancelled, another continues."""

    def __init__(self, steps: Steps[pb.ClusterChange]) -> None:
        self._steps = steps
        self._message: pb.ClusterChange | None = None
        self._turn = asyncio.Lock()

    async def message(self, slices: Slices) -> pb.ClusterChange:
        """The message, as soon as it is complete."""
        async with self._turn:
            if self._message is None:
                self._message = await slices.run(self._steps)
        return self._message
