from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer_core.shard import ConsumerShard
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.consumer_port import ConsumerPort
from highwater.partition.groups.core.shard_state import ShardState
from tests.unit.partition.groups.topics import FakeTopics


def test_it_is_implemented() -> None:
    state = ShardState(GroupConfig(), lambda: "x")
    port: ConsumerPort = ConsumerShard(state, FakeTopics(), ASSIGNORS)
    assert list(port.list_groups(DEFAULT_INSTANCE, [], [])) == []
