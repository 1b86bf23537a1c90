"""AlterConfigs: incremental and replacing."""

from dataclasses import replace

import pytest

from highwater.controller.core import change_configs
from highwater.controller.core.change_configs import ConfigWish, alter_configs
from highwater.kafka.error_codes import ErrorCode
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.cluster import ClusterDelta
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, InstanceId, NodeId, TopicId
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


def test_an_alteration_without_effect_commits_nothing() -> None:
    delta, codes = alter(
        ConfigWish(topic_id=TOPIC.topic_id, set={"a": "1"}),
        ConfigWish(node_id=NO_NODE, set={"x": "1"}),
    )
    assert (delta, codes) == (None, [0, 0])


def test_lists_are_appended_to_and_subtracted_from_their_effective_value() -> None:
    topic_id = TOPIC.topic_id
    delta, codes = alter(
        ConfigWish(topic_id=topic_id, appended={"b": "3", "x": "4"}),
        ConfigWish(topic_id=topic_id, appended={"b": "5"}, subtracted={"a": "1"}),
        ConfigWish(topic_id=topic_id, appended={"BAD": "5"}),
    )
    assert codes == [0, 0, ErrorCode.INVALID_CONFIG]
    assert delta is not None
    assert delta.topics[0].configs == {"a": "", "b": "235", "x": "14"}, "1 is what all brokers have"


def test_a_topics_list_is_appended_to_a_nodes_static_config() -> None:
    image = image_with(1, topics=[TOPIC])
    node = replace(image.nodes[NodeId(1)], static_configs={"y": "7"})
    image = replace(image, nodes={node.node_id: node})
    wish = ConfigWish(topic_id=TOPIC.topic_id, appended={"y": "8"})
    delta = alter_configs(image, DEFAULT_INSTANCE, [wish], PlainConfigRules()).delta
    assert delta is not None
    assert delta.topics[0].configs["y"] == "78"


def test_node_lists_are_appended_to_their_own_value() -> None:
    delta, codes = alter(
        ConfigWish(node_id=NO_NODE, appended={"x": "2"}),
        ConfigWish(node_id=NodeId(1), appended={"x": "3"}),
        ConfigWish(node_id=NodeId(1), subtracted={"x": "3"}, appended={"x": "4"}),
        ConfigWish(node_id=NodeId(1), appended={"BAD": "5"}),
    )
    assert codes == [0, 0, 0, ErrorCode.INVALID_CONFIG]
    assert delta is not None
    assert delta.cluster_configs == {"x": "12"}
    assert delta.node_configs == {1: {"x": "4"}}


def test_a_topics_list_is_appended_to_a_nodes_dynamic_config() -> None:
    image = replace(IMAGE, node_configs={NodeId(1): {"x": "7"}})
    wish = ConfigWish(topic_id=TOPIC.topic_id, appended={"x": "8"})
    delta = alter_configs(image, DEFAULT_INSTANCE, [wish], PlainConfigRules()).delta
    assert delta is not None
    assert delta.topics[0].configs["x"] == "78"


def test_a_node_s_bad_value_is_an_invalid_request() -> None:
    """As in Kafka; a topic's bad value is INVALID_CONFIG."""
    _, codes = alter(
        ConfigWish(node_id=NodeId(1), set={"BAD": "1"}),
        ConfigWish(topic_id=TOPIC.topic_id, set={"BAD": "1"}),
    )
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG]


def test_configs_of_listeners_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_configs, "LISTENER_CONFIGS_MAX", 1)
    one, two = (f"listener.name.{name}.max.connections" for name in "ab")
    delta, codes = alter(
        ConfigWish(node_id=NodeId(1), set={one: "5"}),
        ConfigWish(node_id=NodeId(1), set={two: "5"}),
        ConfigWish(node_id=NodeId(1), set={two: "5"}, deleted=(one,)),
        ConfigWish(node_id=NO_NODE, set={one: "5", "y": "1"}),
    )
    assert codes == [0, ErrorCode.INVALID_REQUEST, 0, 0]
    assert delta is not None
    assert delta.node_configs == {1: {two: "5"}}
    assert delta.cluster_configs == {"x": "1", one: "5", "y": "1"}


def test_each_resource_is_refused_by_itself() -> None:
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


MIN = "min.insync.replicas"
SHARED = topic_state("shared", [(1, 2)])
OWN = replace(topic_state("own", [(1, 2)]), configs={MIN: "2"})


def minima(*wishes: ConfigWish) -> dict[str, int]:
    """Partition epochs of the topics in the delta; 7 means unchanged."""
    image = image_with(2, topics=[SHARED, OWN])
    delta = alter_configs(image, DEFAULT_INSTANCE, wishes, PlainConfigRules()).delta
    return {t.name: t.partitions[0].partition_epoch for t in delta.topics} if delta else {}


def test_a_minimum_changes_the_partitions_with_the_config() -> None:
    assert minima(ConfigWish(topic_id=SHARED.topic_id, set={MIN: "2"})) == {"shared": 8}
    assert minima(ConfigWish(topic_id=OWN.topic_id, deleted=(MIN,))) == {"own": 8}
    assert minima(ConfigWish(topic_id=OWN.topic_id, replace_all=True)) == {"own": 8}
    assert minima(ConfigWish(topic_id=OWN.topic_id, set={"a": "1"})) == {"own": 7}


def test_the_brokers_minimum_is_that_of_topics_without_one() -> None:
    assert minima(ConfigWish(node_id=NO_NODE, set={MIN: "2"})) == {"shared": 8}
    assert minima(ConfigWish(node_id=NO_NODE, set={"other": "2"})) == {}
    both = (
        ConfigWish(node_id=NO_NODE, set={MIN: "2"}),
        ConfigWish(topic_id=OWN.topic_id, deleted=(MIN,)),
    )
    assert minima(*both) == {"shared": 8, "own": 7}, "2 before, 2 after"
    assert minima(*reversed(both)) == {"shared": 8, "own": 7}


def test_a_lower_minimum_forgets_eligible_leaders_at_once() -> None:
    waiting = replace(OWN.partitions[0], isr=(NodeId(1),), eligible_leaders=(NodeId(2),))
    image = image_with(2, topics=[replace(OWN, partitions=(waiting,))])
    wish = ConfigWish(topic_id=OWN.topic_id, set={MIN: "1"})
    delta = alter_configs(image, DEFAULT_INSTANCE, [wish], PlainConfigRules()).delta
    assert delta is not None
    (topic,) = delta.topics
    assert topic.configs == {MIN: "1"}
    assert topic.partitions[0].eligible_leaders == ()


SUB = ClientMetricsKey(DEFAULT_INSTANCE, "sub")
FOREIGN = ClientMetricsKey(InstanceId("other"), "sub")
STORED = {"interval.ms": "1000", "metrics": "a,b"}
SUBSCRIBED = replace(IMAGE, client_metrics={SUB: STORED, FOREIGN: {"interval.ms": "100"}})


def subscribe(*wishes: ConfigWish) -> tuple[ClusterDelta | None, list[int]]:
    decision = alter_configs(SUBSCRIBED, DEFAULT_INSTANCE, wishes, PlainConfigRules())
    return decision.delta, [r.code if r else 0 for r in decision.result]


def test_client_metrics_subscriptions_come_and_go_with_their_configs() -> None:
    delta, codes = subscribe(
        ConfigWish(client_metrics="new", set={"interval.ms": "200"}),
        ConfigWish(client_metrics="sub", deleted=("metrics", "interval.ms", "no.such")),
        ConfigWish(topic_id=TOPIC.topic_id, set={"c": "3"}),
    )
    assert codes == [0, 0, 0]
    assert delta is not None
    new = ClientMetricsKey(DEFAULT_INSTANCE, "new")
    assert delta.client_metrics == {new: {"interval.ms": "200"}, SUB: {}}
    after = SUBSCRIBED.apply(replace(delta, revision=SUBSCRIBED.revision + 1))
    assert after.client_metrics == {new: {"interval.ms": "200"}, FOREIGN: {"interval.ms": "100"}}
    assert after.topics[TOPIC.topic_id].configs["c"] == "3"


def test_client_metrics_are_replaced_and_not_changed_as_lists() -> None:
    delta, codes = subscribe(
        ConfigWish(client_metrics="sub", set={"interval.ms": "5000"}),
        ConfigWish(client_metrics="sub", appended={"metrics": "c"}),
        ConfigWish(client_metrics="sub", subtracted={"metrics": "b"}),
    )
    assert codes == [0, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG]
    assert delta is not None
    assert delta.client_metrics[SUB] == {"interval.ms": "5000", "metrics": "a,b"}
    replaced, codes = subscribe(
        ConfigWish(client_metrics="sub", set={"match": "client_id=a"}, replace_all=True)
    )
    assert codes == [0]
    assert replaced is not None
    assert replaced.client_metrics == {SUB: {"match": "client_id=a"}}


def test_client_metrics_that_are_refused_or_have_no_effect_change_nothing() -> None:
    delta, codes = subscribe(
        ConfigWish(client_metrics="", set={"interval.ms": "200"}),
        ConfigWish(client_metrics="sub", set={"interval.ms": "1"}),
        ConfigWish(client_metrics="sub", set=STORED),
        ConfigWish(client_metrics="none", deleted=("metrics",)),
    )
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, 0, 0]
    assert delta is None


def test_an_instance_has_a_limited_number_of_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_configs, "SUBSCRIPTIONS_MAX", 2)
    more = {"interval.ms": "300"}
    delta, codes = subscribe(
        ConfigWish(client_metrics="b", set=more),
        ConfigWish(client_metrics="c", set=more),
        ConfigWish(client_metrics="sub", set=more),
        ConfigWish(client_metrics="b", replace_all=True),
        ConfigWish(client_metrics="c", set=more),
    )
    assert codes == [0, ErrorCode.POLICY_VIOLATION, 0, 0, 0]
    assert delta is not None
    assert [key.name for key, configs in delta.client_metrics.items() if configs] == ["sub", "c"]
