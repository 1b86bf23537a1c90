from pathlib import Path

import pytest

from highwater.model.errors import ConfigError
from highwater.partition.config import PartitionConfig
from highwater.runtime.settings import load_settings


def load(**overrides):
    return load_settings(PartitionConfig, overrides=overrides)


def test_auto_is_a_node_id():
    assert load(node_id="auto").node_id == load(node_id=-1).node_id == -1
    assert load(node_id="3").node_id == 3
    for wrong in ("automatic", "-2"):
        with pytest.raises(ConfigError, match="node_id"):
            load(node_id=wrong)


def test_a_data_root_replaces_log_dirs():
    config = load(data_root="/data")
    assert config.data_root == Path("/data")
    with pytest.raises(ConfigError, match="exclude one another"):
        load(data_root="/data", log_dirs=["/logs"])


def test_the_settings_of_a_claimed_node():
    config = load(data_root="/data", port=1234).as_node(4, Path("/data/node-4"))
    assert (config.node_id, config.log_dirs) == (4, (Path("/data/node-4"),))
    assert config.port == 1234


def test_session_timeouts_have_an_order():
    both = {"group_min_session_timeout_ms": 500, "group_max_session_timeout_ms": 500}
    assert load(**both).group_max_session_timeout_ms == 500
    with pytest.raises(ConfigError, match="must not be less"):
        load(group_min_session_timeout_ms=2_000_000)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("group_max_size", 0),
        ("group_min_session_timeout_ms", -1),
        ("group_max_session_timeout_ms", 2**31),
        ("group_consumer_max_size", 0),
        ("group_consumer_session_timeout_ms", 44_999),
        ("group_consumer_heartbeat_interval_ms", 15_001),
        ("group_consumer_assignment_interval_ms", -1),
        ("group_consumer_assignment_interval_ms", 15_001),
        ("group_consumer_assignors", ()),
        ("group_consumer_assignors", ("sticky",)),
        ("group_consumer_migration_policy", "both"),
        ("offsets_retention_minutes", 0),
        ("offset_metadata_max_bytes", -1),
        ("producer_id_expiration_ms", 0),
    ],
)
def test_limits_are_kafka_s(name, wrong):
    with pytest.raises(ConfigError, match=name):
        load(**{name: wrong})


@pytest.mark.parametrize("address", ["", "node-1:9500", "[::1]:9500", "10.0.0.1:9500"])
def test_addresses_that_peers_can_be_told(address):
    assert PartitionConfig(advertised_address=address).advertised_address == address


@pytest.mark.parametrize("address", ["node-1", "node-1:", "node-1:70000", "node-1:http"])
def test_addresses_that_no_peer_could_reach(address):
    with pytest.raises(ConfigError, match="advertised_address"):
        load_settings(PartitionConfig, overrides={"advertised_address": address})
