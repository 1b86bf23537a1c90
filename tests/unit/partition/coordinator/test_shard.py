import pytest

from highwater.partition.coordinator.core.values import Moment
from highwater.partition.coordinator.shard import Captured, Shard
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer.group_configs import ImageGroupConfigs
from highwater.partition.groups.consumer.topics import ImageTopics
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.kind import group_kind
from tests.unit.partition.coordinator.counter import CounterShard

CONFIG = GroupConfig()
KIND = group_kind(
    CONFIG, lambda: "x", ImageTopics(), ASSIGNORS, ImageGroupConfigs(CONFIG.consumer_bounds).of
)


@pytest.mark.parametrize("shard", [CounterShard(), KIND.new_shard()])
def test_shards_have_all_that_a_host_asks_for(shard):
    asked = [name for name in vars(Shard) if not name.startswith("_")]
    assert len(asked) >= 9
    assert [name for name in asked if not callable(getattr(shard, name, None))] == []
    assert all(hasattr(shard.capture(), name) for name in vars(Captured) if name == "records")


def test_what_is_captured_no_longer_changes():
    shard = CounterShard()
    shard.add("a", 1, Moment(0, 0))
    captured = shard.capture()
    shard.add("a", 1, Moment(0, 0))
    assert [(record.name, record.value) for record in captured.records()] == [("a", 1)]
