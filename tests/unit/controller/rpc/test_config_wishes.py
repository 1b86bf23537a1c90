"""Which resource a change of configs is about."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.core.change_configs import ConfigWish
from highwater.controller.rpc.config_wishes import config_wish
from highwater.model.ids import NodeId, TopicId

EVERYTHING = {
    "topic_id": b"t" * 16,
    "node_id": 3,
    "name": "n",
    "set": {"a": "1"},
    "deleted": ["b"],
    "replace_all": True,
    "appended": {"c": "2"},
    "subtracted": {"d": "3"},
}


def read(kind: pb.ConfigResourceType) -> ConfigWish:
    return config_wish(pb.ConfigChange(type=kind, **EVERYTHING))  # type: ignore[arg-type]


def test_only_the_named_resource_counts() -> None:
    rest = {
        "set": {"a": "1"},
        "deleted": ("b",),
        "replace_all": True,
        "appended": {"c": "2"},
        "subtracted": {"d": "3"},
    }
    assert read(pb.CONFIG_RESOURCE_TYPE_TOPIC) == ConfigWish(
        topic_id=TopicId(b"t" * 16),
        **rest,  # type: ignore[arg-type]
    )
    assert read(pb.CONFIG_RESOURCE_TYPE_NODE) == ConfigWish(node_id=NodeId(3), **rest)  # type: ignore[arg-type]
    assert read(pb.CONFIG_RESOURCE_TYPE_CLIENT_METRICS) == ConfigWish(client_metrics="n", **rest)  # type: ignore[arg-type]
    assert read(pb.CONFIG_RESOURCE_TYPE_GROUP) == ConfigWish(group="n", **rest)  # type: ignore[arg-type]
