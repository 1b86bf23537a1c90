from highwater.model.config_type import ConfigResourceType, ConfigSource, ConfigType


def test_numbers_are_those_of_the_protocol():
    assert [int(kind) for kind in ConfigType] == list(range(10))
    assert ConfigType.PASSWORD == 9
    assert [int(source) for source in ConfigSource] == list(range(1, 9))
    assert [int(kind) for kind in ConfigResourceType] == [2, 4, 8, 16, 32]


def test_the_nearest_source_wins():
    assert ConfigSource.DYNAMIC_TOPIC < ConfigSource.STATIC_BROKER < ConfigSource.DEFAULT
