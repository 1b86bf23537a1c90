"""The composed controller across restarts."""

from pathlib import Path

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.watch import ClusterWatch
from tests.support.controller import endpoints_of, image_when, node, partition_of, started, topic


async def test_a_nodes_settings_are_published_and_kept(tmp_path: Path) -> None:
    configs = {"group.max.size": "7"}
    first = await started(driver="sqlite", data_dir=tmp_path)
    endpoints = endpoints_of(first)
    member = node(ControllerClient(endpoints), 1)
    member.static_configs = configs
    await member.join()
    watch = ClusterWatch(endpoints)
    watch.start()
    image = await image_when(watch, lambda image: 1 in image.nodes)
    assert [n.static_configs for n in image.nodes.values()] == [configs]
    await watch.stop()
    await endpoints.close()
    await first.stop()
    second = await started(driver="sqlite", data_dir=tmp_path)
    assert second.active is not None
    assert [n.static_configs for n in second.active.image.nodes.values()] == [configs]
    await second.stop()


async def test_state_survives_a_restart(tmp_path: Path) -> None:
    first = await started(driver="sqlite", data_dir=tmp_path)
    client = ControllerClient(first.in_process_endpoints())
    one = await node(client, 1).join()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("t", 3)]))
    await client.allocate_producer_ids(
        pb.AllocateProducerIdsRequest(node_id=1, node_epoch=one.epoch)
    )
    assert first.active is not None
    before = first.active.image
    await first.stop()
    second = await started(driver="sqlite", data_dir=tmp_path)
    try:
        assert second.active is not None
        after = second.active.image
        assert (after.cluster_id, after.topics) == (before.cluster_id, before.topics)
        assert after.controller_epoch > before.controller_epoch
        client = ControllerClient(second.in_process_endpoints())
        again = node(client, 1, "b")
        again.previous_epoch = one.epoch
        assert (await again.register()).error.error_code == 0, "its former process is surely dead"
        assert not (await again.beat()).fenced
        assert partition_of(second.active.image, "t").leader == 1
        block = await client.allocate_producer_ids(
            pb.AllocateProducerIdsRequest(node_id=1, node_epoch=again.epoch)
        )
        assert block.start == 1000
    finally:
        await second.stop()
