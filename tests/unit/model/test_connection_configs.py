import pytest

from highwater.model.broker_config import broker_config_names, broker_config_of
from highwater.model.connection_configs import listener_config_of, overrides_of
from highwater.model.dynamic_config import dynamic_config_error


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("listener.name.internal.max.connections", ("internal", "max.connections")),
        ("listener.name.plaintext.max.connections", ("default", "max.connections")),
        (
            "listener.name.a.b-c_1.max.connection.creation.rate",
            ("a.b-c_1", "max.connection.creation.rate"),
        ),
    ],
)
def test_configs_of_listeners_are_known_by_their_prefix(name: str, found: tuple[str, str]) -> None:
    assert listener_config_of(name) == found
    config = broker_config_of(name)
    assert config is not None
    assert (config.name, config.dynamic) == (name, True)
    assert broker_config_names(name) == (name, found[1])


@pytest.mark.parametrize(
    "name",
    [
        "max.connections",
        "listener.name.max.connections",
        "listener.name..max.connections",
        "listener.name.Internal.max.connections",
        "listener.name.default.max.connections",
        "listener.name.a/b.max.connections",
        f"listener.name.{'a' * 65}.max.connections",
        "listener.name.internal.max.connections.per.ip",
        "listener.name.internal.num.partitions",
    ],
)
def test_others_are_not(name: str) -> None:
    assert listener_config_of(name) is None


@pytest.mark.parametrize(
    "name", ["max.connections", "listener.name.x.max.connection.creation.rate"]
)
def test_limits_are_numbers_from_1_on_for_one_broker_or_all(name: str) -> None:
    for all_nodes in (True, False):
        assert dynamic_config_error(name, "1", all_nodes=all_nodes) is None
        for value in ("0", "-1", "many", str(2**31)):
            why = str(dynamic_config_error(name, value, all_nodes=all_nodes))
            assert why.startswith(f"Invalid value {value} for configuration {name}:")


def test_overrides_are_by_address() -> None:
    assert overrides_of(" 10.0.0.1:5, ::1:7 ,::ffff:10.0.0.2:0,") == {
        "10.0.0.1": 5,
        "::1": 7,
        "10.0.0.2": 0,
    }
    assert overrides_of("") == {}
    name = "max.connections.per.ip.overrides"
    assert dynamic_config_error(name, "10.0.0.1:5", all_nodes=True) is None
    for bad in ("localhost:5", "10.0.0.1", "10.0.0.1:", "10.0.0.1:-1", "10.0.0.1:99999999999"):
        assert f"configuration {name}:" in str(dynamic_config_error(name, bad, all_nodes=True))
