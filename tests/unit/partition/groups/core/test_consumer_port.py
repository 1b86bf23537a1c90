from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer.group_configs import ImageGroupConfigs
from highwater.partition.groups.consumer_core.shard import ConsumerShard
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.consumer_port import ConsumerPort
from highwater.partition.groups.core.shard_state import ShardState
from tests.unit.partition.groups.topics import FakeTopics


def test_it_is_implemented() -> None:
    state = ShardState(GroupConfig(), lambda: "x")
    configs = ImageGroupConfigs(state.config.consumer_bounds)
    port: ConsumerPort = ConsumerShard(state, FakeTopics(), ASSIGNORS, configs.of)
    assert list(port.list_groups(DEFAULT_INSTANCE, [], [])) == []
