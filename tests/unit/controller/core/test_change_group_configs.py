"""Configs of groups: which ids and values the controller refuses."""

from dataclasses import replace

import pytest

from highwater.controller.core import change_configs
from highwater.controller.core.change_configs import ConfigWish, alter_configs
from highwater.controller.core.change_group_configs import (
    GROUP_ID_CHARS_MAX,
    group_configs_refusal,
    group_id_error,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, NodeId
from tests.support.config_rules import PlainConfigRules
from tests.support.controller_images import image_with

HEARTBEAT, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
KEY = GroupConfigKey(DEFAULT_INSTANCE, "g")
FOREIGN = GroupConfigKey(InstanceId("other"), "g")
STORED = {SESSION: "50000", HEARTBEAT: "6000"}
IMAGE = replace(image_with(2), group_configs={KEY: STORED, FOREIGN: {SESSION: "46000"}})


def alter(*wishes: ConfigWish) -> tuple[ClusterDelta | None, list[int]]:
    decision = alter_configs(IMAGE, DEFAULT_INSTANCE, wishes, PlainConfigRules())
    return decision.delta, [r.code if r else 0 for r in decision.result]


def test_ids() -> None:
    assert group_id_error("a b/ü") is None
    assert group_id_error("x" * GROUP_ID_CHARS_MAX) is None
    for group_id in ("", "x" * (GROUP_ID_CHARS_MAX + 1)):
        refusal = group_id_error(group_id)
        assert refusal is not None
        assert refusal.code == ErrorCode.INVALID_REQUEST


def test_values_suit_every_node() -> None:
    wanted = {SESSION: "30000"}
    refusal = group_configs_refusal(IMAGE, {}, wanted)
    assert refusal is not None
    assert refusal.code == ErrorCode.INVALID_CONFIG
    settings = {"group.consumer.min.session.timeout.ms": "20000"}
    image = IMAGE
    for node_id in (NodeId(1), NodeId(2)):
        assert group_configs_refusal(image, {}, wanted) is not None
        node = replace(image.nodes[node_id], static_configs=settings)
        image = replace(image, nodes={**image.nodes, node_id: node})
    assert group_configs_refusal(image, {}, wanted) is None


def test_without_nodes_kafkas_bounds_hold() -> None:
    image = replace(IMAGE, nodes={})
    assert group_configs_refusal(image, {}, {SESSION: "45000"}) is None
    assert group_configs_refusal(image, {}, {SESSION: "44000"}) is not None


def test_configs_come_and_go() -> None:
    delta, codes = alter(
        ConfigWish(group="new", set={SESSION: "46000"}),
        ConfigWish(group="g", deleted=(SESSION, HEARTBEAT, "no.such")),
    )
    assert codes == [0, 0]
    assert delta is not None
    new = GroupConfigKey(DEFAULT_INSTANCE, "new")
    assert delta.group_configs == {new: {SESSION: "46000"}, KEY: {}}
    after = IMAGE.apply(replace(delta, revision=IMAGE.revision + 1))
    assert after.group_configs == {new: {SESSION: "46000"}, FOREIGN: {SESSION: "46000"}}


def test_configs_are_replaced_and_build_on_earlier_ones() -> None:
    delta, codes = alter(
        ConfigWish(group="g", set={SESSION: "47000"}, replace_all=True),
        ConfigWish(group="g", set={HEARTBEAT: "7000"}),
        ConfigWish(group="g", appended={SESSION: "1"}),
    )
    assert codes == [0, 0, ErrorCode.INVALID_CONFIG]
    assert delta is not None
    assert delta.group_configs == {KEY: {SESSION: "47000", HEARTBEAT: "7000"}}


def test_what_is_refused_or_has_no_effect_changes_nothing() -> None:
    delta, codes = alter(
        ConfigWish(group="", set={SESSION: "46000"}),
        ConfigWish(group="g", set={SESSION: "1"}),
        ConfigWish(group="g", set=STORED),
        ConfigWish(group="none", deleted=(SESSION,)),
    )
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG, 0, 0]
    assert delta is None


def test_an_instance_has_a_limited_number_of_groups_with_configs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(change_configs, "GROUPS_MAX", 2)
    more = {SESSION: "46000"}
    delta, codes = alter(
        ConfigWish(group="b", set=more),
        ConfigWish(group="c", set=more),
        ConfigWish(group="g", set=more),
        ConfigWish(group="b", replace_all=True),
        ConfigWish(group="c", set=more),
    )
    assert codes == [0, ErrorCode.POLICY_VIOLATION, 0, 0, 0]
    assert delta is not None
    assert [key.group_id for key, configs in delta.group_configs.items() if configs] == ["g", "c"]
