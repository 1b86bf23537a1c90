"""Changes of configs, from messages to what decisions take."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.core.change_configs import ConfigWish
from highwater.model.ids import NodeId, TopicId


def config_wish(change: pb.ConfigChange) -> ConfigWish:
    """One resource's change."""
    of_topic = change.type == pb.CONFIG_RESOURCE_TYPE_TOPIC
    of_node = change.type == pb.CONFIG_RESOURCE_TYPE_NODE
    of_metrics = change.type == pb.CONFIG_RESOURCE_TYPE_CLIENT_METRICS
    of_group = change.type == pb.CONFIG_RESOURCE_TYPE_GROUP
    return ConfigWish(
        topic_id=TopicId(change.topic_id) if of_topic else None,
        node_id=NodeId(change.node_id) if of_node else None,
        client_metrics=change.name if of_metrics else None,
        group=change.name if of_group else None,
        set=dict(change.set),
        deleted=tuple(change.deleted),
        replace_all=change.replace_all,
        appended=dict(change.appended),
        subtracted=dict(change.subtracted),
    )
