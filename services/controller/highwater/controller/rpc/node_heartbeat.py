"""What a node reports in a heartbeat, from its message."""

from collections.abc import Iterable
from typing import Protocol

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.members.heartbeats import NodeHeartbeat
from highwater.model.ids import NodeId, TopicId


def node_heartbeat(request: pb.HeartbeatRequest) -> NodeHeartbeat:
    """Of a node, not of a gateway."""
    return NodeHeartbeat(
        node_id=NodeId(request.node_id),
        node_epoch=request.node_epoch,
        applied_revision=request.applied_revision,
        wants_shutdown=request.wants_shutdown,
        waits_for_gateway=request.waits_for_gateway,
        failed_log_dirs=tuple(request.failed_log_dirs),
        offline_replicas=_by_topic(request.offline_replicas),
        full_replicas=_by_topic(request.full_replicas),
    )


class _OfTopic(Protocol):
    """OfflineReplicas and FullReplicas."""

    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Iterable[int]: ...


def _by_topic(topics: Iterable[_OfTopic]) -> dict[TopicId, frozenset[int]]:
    return {TopicId(topic.topic_id): frozenset(topic.partitions) for topic in topics}
