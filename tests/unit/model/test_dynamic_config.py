import pytest

from highwater.model.broker_config import BROKER_CONFIGS
from highwater.model.cluster import ClusterImage
from highwater.model.dynamic_config import (
    broker_number,
    broker_values,
    dynamic_config_error,
    dynamic_name_error,
    held,
)
from highwater.model.ids import NodeId


def test_every_dynamic_config_takes_its_default() -> None:
    for name, config in BROKER_CONFIGS.items():
        value = "1" if config.default is None else config.default
        why = dynamic_config_error(name, value, all_nodes=True)
        assert (why is None) == config.dynamic, (name, why)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.segment.bytes", "5"),
        ("log.retention.ms", "-2"),
        ("log.retention.ms", "a week"),
        ("log.retention.ms", "9999999999999999999"),
        ("compression.type", "zip"),
        ("compression.gzip.level", "0"),
        ("log.cleanup.policy", "burn"),
        ("log.message.timestamp.type", "createtime"),
        ("unclean.leader.election.enable", "perhaps"),
    ],
)
def test_values_are_those_that_a_topic_could_have(name: str, value: str) -> None:
    why = dynamic_config_error(name, value, all_nodes=True)
    assert why is not None
    assert why.startswith("Invalid value")
    assert f"configuration {name}:" in why


@pytest.mark.parametrize("value", ["-1", "fast", "1.5", "", str(2**63), "\u0661"])
def test_rates_are_whole_numbers_from_0_on(value: str) -> None:
    name = "leader.replication.throttled.rate"
    assert f"configuration {name}:" in str(dynamic_config_error(name, value, all_nodes=False))


def test_rates_are_set_on_one_broker_or_on_all() -> None:
    for all_nodes in (True, False):
        for value in ("0", "1000", str(2**63 - 1)):
            name = "follower.replication.throttled.rate"
            assert dynamic_config_error(name, value, all_nodes=all_nodes) is None


@pytest.mark.parametrize(
    "name",
    [
        "node.id",
        "no.such.config",
        "log.cleaner.threads",
        "log.retention.hours",
        "log.retention.minutes",
        "log.roll.hours",
        "log.roll.jitter.hours",
        "group.max.size",
        "offsets.retention.minutes",
        "num.partitions",
    ],
)
def test_fixed_and_unknown_configs_are_refused(name: str) -> None:
    assert dynamic_name_error(name, all_nodes=True) is not None
    assert dynamic_config_error(name, "1", all_nodes=False) is not None


def test_configs_of_the_controller_are_set_for_all_nodes() -> None:
    assert dynamic_config_error("min.insync.replicas", "2", all_nodes=True) is None
    assert "all brokers" in str(dynamic_config_error("min.insync.replicas", "2", all_nodes=False))
    assert dynamic_config_error("log.retention.ms", "2", all_nodes=False) is None


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("producer.id.expiration.ms", ["1", "2147483647"], ["0", "2147483648", "1.5", ""]),
        ("log.cleaner.backoff.ms", ["0", " 5 "], ["-1", "soon"]),
        ("log.cleaner.dedupe.buffer.size", ["1048577"], ["1048576", "1e7"]),
        ("log.cleaner.io.max.bytes.per.second", ["1", "1.5E9", "Infinity"], ["0", "NaN", "1_0"]),
    ],
)
def test_numeric_settings_have_limits(name: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        assert dynamic_config_error(name, value, all_nodes=False) is None, value
    for value in bad:
        why = dynamic_config_error(name, value, all_nodes=True)
        assert why is not None, value
        assert f"configuration {name}:" in why


def test_an_invalid_stored_value_has_no_effect() -> None:
    stored = {
        "log.retention.hours": "1",
        "log.retention.ms": "soon",
        "message.max.bytes": "5",
        "min.insync.replicas": "2",
        "odd": "1",
    }
    assert held(stored, all_nodes=True) == {"message.max.bytes": "5", "min.insync.replicas": "2"}
    assert held(stored, all_nodes=False) == {"message.max.bytes": "5"}


def test_a_nodes_own_configs_come_before_cluster_configs_and_settings() -> None:
    size, age, roll = "log.segment.bytes", "log.retention.ms", "log.roll.ms"
    image = ClusterImage(
        revision=1,
        cluster_id="c",
        cluster_configs={size: "2000002", age: "2", "log.roll.hours": "9"},
        node_configs={NodeId(1): {size: "2000001"}, NodeId(2): {age: "3"}},
    )
    static = {size: "2000003", age: "4", roll: "5"}
    assert broker_values(image, NodeId(1), static) == {size: "2000001", age: "2", roll: "5"}


def test_numbers_have_the_table_s_defaults() -> None:
    name = "producer.id.expiration.ms"
    assert broker_number(name, {}) == 86_400_000
    assert broker_number(name, {name: "7"}) == 7
