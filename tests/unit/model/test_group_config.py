import pytest

from highwater.model.cluster import ClusterImage
from highwater.model.group_config import (
    Bounds,
    ConsumerGroupConfig,
    bounds_of,
    group_config,
    group_config_error,
    with_dynamic_configs,
)
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId

HEARTBEAT, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
KAFKAS = bounds_of({})
KEY = GroupConfigKey(DEFAULT_INSTANCE, "readers")


def test_bounds_are_the_brokers_or_kafkas():
    assert KAFKAS[HEARTBEAT] == Bounds(5_000, 5_000, 15_000)
    assert KAFKAS[SESSION] == Bounds(45_000, 45_000, 60_000)
    broker = {
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.max.heartbeat.interval.ms": "20000",
        "group.consumer.session.timeout.ms": "2000",
        "log.retention.ms": "x",
    }
    assert bounds_of(broker) == {
        HEARTBEAT: Bounds(5_000, 5_000, 20_000),
        SESSION: Bounds(2_000, 1_000, 60_000),
        ASSIGNMENT: Bounds(1_000, 0, 15_000),
    }


@pytest.mark.parametrize(
    ("given", "default"), [("3000", 3_000), (" 0 ", 2_000), ("99999", 15_000), (None, 2_500)]
)
def test_a_broker_may_change_its_default_within_its_bounds(given, default):
    name = f"group.{ASSIGNMENT}"
    bounds = bounds_of({name: "2500", "group.consumer.min.assignment.interval.ms": "2000"})
    dynamic = {"log.retention.ms": "x"} | ({} if given is None else {name: given})
    changed = with_dynamic_configs(bounds, dynamic)
    assert changed == {**bounds, ASSIGNMENT: Bounds(default, 2_000, 15_000)}


def test_a_groups_values_are_its_own_or_the_brokers():
    image = ClusterImage(
        revision=1,
        cluster_id="c",
        group_configs={KEY: {SESSION: " 50000 ", ASSIGNMENT: "0", "other": "1"}},
    )
    assert group_config(image, KEY, KAFKAS) == ConsumerGroupConfig(
        session_timeout_ms=50_000, heartbeat_interval_ms=5_000, assignment_interval_ms=0
    )
    others = [KEY._replace(group_id="writers"), KEY._replace(instance=InstanceId("other"))]
    for key in others:
        assert group_config(image, key, KAFKAS) == ConsumerGroupConfig(
            session_timeout_ms=45_000, heartbeat_interval_ms=5_000, assignment_interval_ms=1_000
        )


@pytest.mark.parametrize(
    ("high", "low", "value"), [("48000", "1", 48_000), ("9" * 9, "51000", 51_000)]
)
def test_of_a_broker_with_other_bounds_the_nearest_holds(high, low, value):
    image = ClusterImage(revision=1, cluster_id="c", group_configs={KEY: {SESSION: "50000"}})
    bounds = bounds_of({
        "group.consumer.max.session.timeout.ms": high,
        "group.consumer.min.session.timeout.ms": low,
    })  # fmt: skip
    assert group_config(image, KEY, bounds).session_timeout_ms == value


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({}, {SESSION: "45000"}),
        ({}, {SESSION: " 60000 ", HEARTBEAT: "15000", ASSIGNMENT: "0"}),
        ({SESSION: "1000000", "gone": "x"}, {SESSION: "1000000", "gone": "x"}),
        ({SESSION: "1000000"}, {SESSION: "1000000", HEARTBEAT: "6000"}),
    ],
)
def test_valid_configs(before, after):
    assert group_config_error(before, after, KAFKAS) is None


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ({"no.such": "1"}, "Unknown group config name: no.such"),
        (
            {"share.session.timeout.ms": "45000"},
            "Unknown group config name: share.session.timeout.ms",
        ),
        (
            {SESSION: "4e4"},
            f"Invalid value 4e4 for configuration {SESSION}: Not a number of type INT",
        ),
        (
            {SESSION: str(2**31)},
            f"Invalid value {2**31} for configuration {SESSION}: Not a number of",
        ),
        ({SESSION: ""}, f"Invalid value  for configuration {SESSION}: Not a number of type INT"),
        ({SESSION: "0"}, f"Invalid value 0 for configuration {SESSION}: Value must be at least 1"),
        ({SESSION: " " * 100 + "1"}, f"The value of {SESSION} is too long."),
        ({SESSION: "44999"}, "greater than or equal to group.consumer.min.session.timeout.ms"),
        ({SESSION: "60001"}, "less than or equal to group.consumer.max.session.timeout.ms"),
        ({HEARTBEAT: "4999"}, "greater than or equal to group.consumer.min.heartbeat.interval.ms"),
        ({HEARTBEAT: "15001"}, "less than or equal to group.consumer.max.heartbeat.interval.ms"),
        (
            {ASSIGNMENT: "-1"},
            f"Invalid value -1 for configuration {ASSIGNMENT}: Value must be at least 0",
        ),
        ({ASSIGNMENT: "15001"}, "less than or equal to group.consumer.max.assignment.interval.ms"),
    ],
)
def test_invalid_configs(after, why):
    assert why in (group_config_error({}, after, KAFKAS) or "")


def test_a_session_lasts_longer_than_from_one_heartbeat_to_the_next():
    short = bounds_of({"group.consumer.min.session.timeout.ms": "5000"})
    why = f"{SESSION} must be greater than {HEARTBEAT}"
    assert group_config_error({}, {SESSION: "5000"}, short) == why, "the broker's interval"
    assert group_config_error({}, {SESSION: "5001"}, short) is None
    stored = {SESSION: "6000"}
    assert group_config_error(stored, {**stored, HEARTBEAT: "6000"}, short) == why
    both = {SESSION: "6000", HEARTBEAT: "5500"}
    low = bounds_of({
        "group.consumer.min.session.timeout.ms": "5000",
        "group.consumer.heartbeat.interval.ms": "6000",
    })  # fmt: skip
    assert group_config_error(both, stored, low) == why, "what is left of them"
    assert group_config_error(both, {}, low) is None
