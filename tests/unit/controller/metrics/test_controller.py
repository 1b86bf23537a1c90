"""A controller's metrics."""

from prometheus_client import CollectorRegistry

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.service import ControllerService
from highwater.metadata.controller_client import ControllerClient
from tests.support.controller import controller_config, node, topic


async def test_gauges() -> None:
    registry = CollectorRegistry()
    service = ControllerService(controller_config(), registry=registry, serve_grpc=False)
    assert registry.get_sample_value("highwater_controller_active") == 0
    assert registry.get_sample_value("highwater_controller_topics") is None
    await service.start()
    await service.wait_active(5)
    client = ControllerClient(service.in_process_endpoints())
    await node(client, 1).join()
    await node(client, 2).register()
    await client.create_topics(pb.CreateTopicsRequest(topics=[topic("a", 3)]))
    values = {
        name: registry.get_sample_value(f"highwater_controller_{name}")
        for name in (
            "active",
            "topics",
            "partitions",
            "nodes",
            "fenced_nodes",
            "gateways",
            "leaderless_partitions",
            "unpreferred_leaders",
            "unclean_elections_total",
        )
    }
    assert values == {
        "active": 1, "topics": 1, "partitions": 3, "nodes": 2, "fenced_nodes": 1, "gateways": 0,
        "leaderless_partitions": 0, "unpreferred_leaders": 0, "unclean_elections_total": 0,
    }  # fmt: skip
    await service.stop()
