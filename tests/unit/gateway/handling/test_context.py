from highwater.gateway.handling.context import HandlerSettings


def test_defaults_are_kafka_s():
    settings = HandlerSettings()
    assert (settings.auto_create_topics, settings.partitions_default) == (True, 1)
    assert (settings.replication_factor_default, settings.group_metadata_partitions) == (1, 50)
    assert settings.group_metadata_replication_factor == -1
