from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.members.heartbeats import NodeHeartbeat
from highwater.controller.rpc.node_heartbeat import node_heartbeat
from highwater.model.ids import NodeId, TopicId

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)


def test_what_a_node_reports():
    request = pb.HeartbeatRequest(
        node_id=1,
        node_epoch=2,
        applied_revision=3,
        wants_shutdown=True,
        failed_log_dirs=["/x"],
        offline_replicas=[pb.OfflineReplicas(topic_id=A, partitions=[0, 2])],
        full_replicas=[
            pb.FullReplicas(topic_id=A, partitions=[1]),
            pb.FullReplicas(topic_id=B, partitions=[0]),
        ],
    )
    assert node_heartbeat(request) == NodeHeartbeat(
        node_id=NodeId(1),
        node_epoch=2,
        applied_revision=3,
        wants_shutdown=True,
        failed_log_dirs=("/x",),
        offline_replicas={A: frozenset({0, 2})},
        full_replicas={A: frozenset({1}), B: frozenset({0})},
    )


def test_a_node_of_an_older_version_says_nothing_of_its_disks():
    assert node_heartbeat(pb.HeartbeatRequest(node_id=1)).full_replicas == {}
