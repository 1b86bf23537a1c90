"""AlterConfigs: incremental and replacing."""

from dataclasses import replace

from highwater.controller.core.change_configs import ConfigWish, alter_configs
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, NodeId, TopicId
from tests.support.config_rules import PlainConfigRules
from tests.support.controller_images import image_with, topic_state

TOPIC = replace(topic_state("t", [(1,)]), configs={"a": "1", "b": "2"})
IMAGE = replace(image_with(1, topics=[TOPIC]), cluster_configs={"x": "1"})


def alter(*wishes: ConfigWish) -> tuple[ClusterDelta | None, list[int]]:
    decision = alter_configs(IMAGE, DEFAULT_INSTANCE, wishes, PlainConfigRules())
    return decision.delta, [r.code if r else 0 for r in decision.result]


def test_incremental() -> None:
    delta, codes = alter(ConfigWish(topic_id=TOPIC.topic_id, set={"c": "3"}, deleted=("a",)))
    assert codes == [0]
    assert delta is not None
    assert delta.topics[0].configs == {"b": "2", "c": "3"}
    assert delta.topics[0].partitions == TOPIC.partitions


def test_replacing() -> None:
    delta, _ = alter(ConfigWish(topic_id=TOPIC.topic_id, set={"c": "3"}, replace_all=True))
    assert delta is not None
    assert delta.topics[0].configs == {"c": "3"}


def test_nodes_and_all_nodes() -> None:
    delta, codes = alter(
        ConfigWish(node_id=NO_NODE, deleted=("x",)), ConfigWish(node_id=NodeId(1), set={"y": "2"})
    )
    assert codes == [0, 0]
    assert delta is not None
    assert delta.cluster_configs == {}
    assert delta.node_configs == {1: {"y": "2"}}


def test_what_changes_nothing_commits_nothing() -> None:
    delta, codes = alter(
        ConfigWish(topic_id=TOPIC.topic_id, set={"a": "1"}),
        ConfigWish(node_id=NO_NODE, set={"x": "1"}),
    )
    assert (delta, codes) == (None, [0, 0])


def test_refusals_stand_for_themselves() -> None:
    delta, codes = alter(
        ConfigWish(topic_id=TopicId(bytes(16)), set={"a": "1"}),
        ConfigWish(topic_id=TOPIC.topic_id, set={"BAD": "1"}),
        ConfigWish(node_id=NodeId(9), set={"a": "1"}),
        ConfigWish(),
        ConfigWish(topic_id=TOPIC.topic_id, set={"ok": "1"}),
    )
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        0,
    ]
    assert delta is not None
    assert delta.topics[0].configs == {"a": "1", "b": "2", "ok": "1"}
