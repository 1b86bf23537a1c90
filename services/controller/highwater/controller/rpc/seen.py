"""Passes what members have seen to the controller, which compares it with its store."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.active.active import ActiveController


async def check_seen(controller: ActiveController, seen: pb.SeenImage) -> None:
    """Raises StoreWentBackError, NotActiveError, StoreUnavailableError."""
    await controller.check_seen(
        seen.revision, controller_epoch=seen.controller_epoch, cluster_id=seen.cluster_id
    )
