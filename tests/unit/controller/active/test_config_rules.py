import pytest

from highwater.controller.active.config_rules import (
    MESSAGE_CHARS_MAX,
    VALUE_BYTES_MAX,
    KafkaConfigRules,
)

RULES = KafkaConfigRules()


def test_topics_get_kafka_s_configs() -> None:
    assert RULES.topic_error({}, {"retention.ms": "-1", "cleanup.policy": "compact"}) is None
    assert RULES.topic_error({}, {}) is None
    assert "Unknown topic config name: x" in str(RULES.topic_error({}, {"x": "1"}))
    assert "retention.ms" in str(RULES.topic_error({}, {"retention.ms": "soon"}))


def test_new_configs_must_fit_the_topics_other_configs() -> None:
    kept = {"min.compaction.lag.ms": "10"}
    wanted = {"max.compaction.lag.ms": "5"}
    assert RULES.topic_error({}, wanted) is None
    assert "conflict" in str(RULES.topic_error(kept, wanted))


def test_an_invalid_stored_config_does_not_refuse_a_change() -> None:
    assert (
        RULES.topic_error({"old.config": "1", "segment.bytes": "1"}, {"retention.ms": "1"}) is None
    )


def test_lists_of_topics_change_by_items() -> None:
    def changed(name: str, **given: str) -> str | None:
        return RULES.changed_list(name, {}, {}, **{"added": "", "removed": "", **given})

    assert changed("cleanup.policy", added="compact") == "delete,compact"
    assert changed("cleanup.policy", removed="delete") == ""
    assert changed("retention.ms", added="1") is None
    assert changed("no.such.list", removed="1") is None


def test_lists_of_nodes_change_by_items() -> None:
    name = "log.cleanup.policy"
    assert RULES.changed_node_list(name, {}, added="compact", removed="") == "delete,compact"
    assert RULES.changed_node_list(name, {name: "compact"}, added="", removed="compact") == ""
    assert RULES.changed_node_list("log.roll.ms", {}, added="1", removed="") is None
    assert RULES.changed_node_list("no.such.list", {}, added="1", removed="") is None


def test_nodes_get_dynamic_configs() -> None:
    assert RULES.node_error({"log.retention.ms": "5"}, all_nodes=False) is None
    assert "node.id" in str(RULES.node_error({"node.id": "5"}, all_nodes=True))
    assert "log.roll.ms" in str(RULES.node_error({"log.roll.ms": "0"}, all_nodes=True))
    assert RULES.node_error({"min.insync.replicas": "2"}, all_nodes=True) is None
    assert RULES.node_error({"min.insync.replicas": "2"}, all_nodes=False) is not None


def test_configs_that_elections_read() -> None:
    name = "min.insync.replicas"
    assert RULES.min_isr({}, {}) == 1
    assert RULES.min_isr({}, {name: "2"}) == 2
    assert RULES.min_isr({name: "3"}, {name: "2"}) == 3
    assert RULES.min_isr({name: "0"}, {name: "2"}) == 2, "what is not valid is not set"
    unclean = "unclean.leader.election.enable"
    assert not RULES.unclean({}, {})
    assert RULES.unclean({}, {unclean: "true"})
    assert not RULES.unclean({unclean: "false"}, {unclean: "true"})


REPLICAS = "leader.replication.throttled.replicas"


def test_values_have_a_limit() -> None:
    long = ",".join(f"{number}:1" for number in range(VALUE_BYTES_MAX))
    assert "longer" in str(RULES.topic_error({}, {REPLICAS: long}))
    assert "longer" in str(RULES.node_error({"log.cleanup.policy": long}, all_nodes=True))


def test_a_throttle_may_name_all_replicas_of_a_large_topic() -> None:
    """`kafka-reassign-partitions --throttle` sets one value for all partitions that it moves."""
    pairs = [f"{partition}:{node}" for partition in range(1_000) for node in (1, 2, 3)]
    assert RULES.topic_error({}, {REPLICAS: ",".join(pairs)}) is None


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ("x" * 32_767, False),
        ("x" * 32_768, True),
        ("ä" * 16_383 + "x", False),
        ("ä" * 16_384, True),
    ],
)
def test_the_limit_is_kafkas_and_counts_bytes(value: str, *, refused: bool) -> None:
    assert ("longer" in str(RULES.topic_error({}, {REPLICAS: value}))) is refused


@pytest.mark.parametrize("value", ["x" * VALUE_BYTES_MAX, "😀" * (VALUE_BYTES_MAX // 4)])
def test_a_refusal_of_a_long_value_fits_every_version_of_an_answer(value: str) -> None:
    for why in (
        RULES.topic_error({}, {"retention.ms": value}),
        RULES.topic_error({}, {value: "1"}),
        RULES.topic_error({}, {value: "x" * (VALUE_BYTES_MAX + 1)}),
        RULES.node_error({"log.retention.ms": value}, all_nodes=True),
    ):
        assert why is not None
        assert len(why) == MESSAGE_CHARS_MAX
        assert len(why.encode()) <= 32_767
    why = str(RULES.topic_error({}, {"retention.ms": value}))
    assert why.startswith("Invalid value ")
    assert "for configuration retention.ms: " in why
