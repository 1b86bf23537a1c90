import dataclasses

from highwater.model.config_type import ConfigType
from highwater.model.topic_config import TopicConfig, parse
from highwater.model.topic_config_table import TOPIC_CONFIGS


def test_every_default_is_valid_and_has_a_field_of_its_type() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(TopicConfig)}
    python_types = {
        ConfigType.BOOLEAN: bool,
        ConfigType.INT: int,
        ConfigType.LONG: int,
        ConfigType.DOUBLE: float,
        ConfigType.STRING: str,
        ConfigType.LIST: tuple[str, ...],
    }
    assert set(fields) == {name.replace(".", "_") for name in TOPIC_CONFIGS}
    for name, entry in TOPIC_CONFIGS.items():
        assert fields[name.replace(".", "_")] == python_types[entry.type]
        parse(name, entry.default)
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)


def test_every_config_is_described() -> None:
    for name, entry in TOPIC_CONFIGS.items():
        assert entry.name == name
        assert entry.documentation.endswith("."), name
