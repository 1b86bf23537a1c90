from __future__ import annotations

import pytest

from highwater.model.group_config import bounds_of
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer.durable import GroupEpoch, GroupEpochRecord
from highwater.partition.groups.consumer.group_configs import ImageGroupConfigs
from highwater.partition.groups.consumer_core.state import EPOCH_MAX, ConsumerState
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.shard_state import ShardState
from tests.unit.partition.groups.dialogue import key
from tests.unit.partition.groups.topics import FakeTopics


def test_epochs_grow_by_one_up_to_the_largest() -> None:
    shard = ShardState(GroupConfig(), lambda: "x")
    state = ConsumerState(shard, FakeTopics(), ASSIGNORS, ImageGroupConfigs(bounds_of({})).of)
    state.apply(GroupEpochRecord(key("g"), GroupEpoch(EPOCH_MAX - 1, 0)))
    group = state.groups[key("g")]
    state.bump_epoch(key("g"), group)
    assert group.epoch == EPOCH_MAX
    assert len(shard.records) == 2
    with pytest.raises(AssertionError):
        state.bump_epoch(key("g"), group)
