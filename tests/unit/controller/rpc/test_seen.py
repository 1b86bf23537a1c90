"""The image that members report as seen."""

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.rpc.seen import check_seen
from highwater.controller.store.port import StoreWentBackError
from tests.support.controller import started


async def test_an_image_that_the_store_lacks() -> None:
    service = await started()
    active = await service.wait_active(5)
    cluster_id = active.image.cluster_id
    await check_seen(active, pb.SeenImage())
    present = pb.SeenImage(revision=active.image.revision, cluster_id=cluster_id)
    await check_seen(active, present)
    await check_seen(active, pb.SeenImage(revision=1 << 40, cluster_id="another"))
    with pytest.raises(StoreWentBackError):
        await check_seen(active, pb.SeenImage(revision=1 << 40, cluster_id=cluster_id))
    await service.stop()
