from highwater.model.group_config_table import GROUP_CONFIGS


def test_configs_are_those_of_kafka_by_name():
    assert [(one.name, one.default, one.low, one.high) for one in GROUP_CONFIGS.values()] == [
        ("consumer.heartbeat.interval.ms", 5_000, 5_000, 15_000),
        ("consumer.session.timeout.ms", 45_000, 45_000, 60_000),
        ("consumer.assignment.interval.ms", 1_000, 0, 15_000),
    ]
    for name, entry in GROUP_CONFIGS.items():
        setting = name.removeprefix("consumer.")
        assert entry.name == name
        assert entry.broker_config == f"group.consumer.{setting}"
        assert entry.low_config == f"group.consumer.min.{setting}"
        assert entry.high_config == f"group.consumer.max.{setting}"
        assert entry.documentation
