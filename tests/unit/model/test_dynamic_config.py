import pytest

from highwater.model.broker_config import BROKER_CONFIGS
from highwater.model.dynamic_config import dynamic_config_error, dynamic_name_error


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
        ("log.retention.hours", "a week"),
        ("log.retention.hours", "9999999999999999"),
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


@pytest.mark.parametrize("name", ["node.id", "no.such.config", "log.cleaner.threads"])
def test_what_is_fixed_or_unknown_is_refused(name: str) -> None:
    assert dynamic_name_error(name, all_nodes=True) is not None
    assert dynamic_config_error(name, "1", all_nodes=False) is not None


def test_what_the_controller_decides_by_is_set_for_all_nodes() -> None:
    assert dynamic_config_error("min.insync.replicas", "2", all_nodes=True) is None
    assert "all brokers" in str(dynamic_config_error("min.insync.replicas", "2", all_nodes=False))
    assert dynamic_config_error("log.retention.minutes", "2", all_nodes=False) is None
